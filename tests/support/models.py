"""Tiny random checkpoints, made once per content and cached; and what transformers says about them.

Weights are float32. Only a handful of output tokens can win the argmax, so that even a random drafter is
accepted now and then, and greedy text is not stuck on one token.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from .checkpoints import TINY, write_checkpoint

ROOT = Path(os.environ.get("DSPINE_TEST_MODELS", Path(tempfile.gettempdir()) / f"sglang-dspine-models-{os.getuid()}"))
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>")  # ids 256 .. 259
VOCAB = 320
EOS, PAD, MASK = 258, 256, 259
LIVELY = (65, 66, 67, 68, 69, 70)


def cached(name: str, build: Callable[[Path], None], **given) -> str:
    """The folder of a checkpoint, built once for what is given and for the file that holds `build`."""
    source = Path(str(inspect.getsourcefile(build))).read_text()
    key = json.dumps(given, sort_keys=True, default=str) + source
    path = ROOT / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    if not path.is_dir():
        ROOT.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=ROOT))
        build(draft)
        try:
            draft.rename(path)  # atomic: a killed test run leaves no half checkpoint
        except OSError:
            shutil.rmtree(draft)  # another process was first
    return str(path)


def dense_qwen3(seed: int = 0, lively: tuple[int, ...] | None = LIVELY, **overrides) -> str:
    """A 4-layer Qwen3 of width 64; only `lively` tokens have a score, or all of them if None."""
    given = {"seed": seed, "lively": lively, **overrides}
    return cached("dense", lambda path: _save_dense(path, seed, lively, overrides), **given)


def hybrid_qwen35(seed: int = 2, **overrides) -> str:
    """A 4-layer Qwen3.5 text model of width 64: three gated-delta layers, then one of full attention."""
    return cached("hybrid", lambda path: _save_hybrid(path, seed, overrides), seed=seed, **overrides)


def dflash_drafter(seed: int = 1, **overrides) -> str:
    """A 2-layer DFLASH drafter for either target, block 4, taps after target layers 0 and 2."""
    return cached("dflash", lambda path: _save_dflash(path, seed, overrides), seed=seed, **overrides)


def dspine_drafter(seed: int = 5, **changes) -> str:
    """A 2-layer DSpine drafter for either target, block 8, taps after target layers 0 and 2.

    `changes` are fields of DraftConfig. About every third proposal is the target's own: one of its lively tokens.
    """
    return cached("dspine", lambda path: _save_dspine(path, seed, changes), seed=seed, **changes)


def save_tokenizer(path: Path) -> None:
    """A byte-level vocabulary: ids 0 .. 255 are bytes, then the special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = {char: i for i, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", mask_token="<|mask|>"
    )
    fast.chat_template = (
        "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    fast.save_pretrained(path)


def _common(overrides: dict) -> dict:
    return {
        "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 1024,
        "tie_word_embeddings": False, "initializer_range": 0.2, "eos_token_id": EOS, "pad_token_id": PAD,
        "bos_token_id": None, **overrides,
    }  # fmt: skip


def _save_dense(path: Path, seed: int, lively: tuple[int, ...] | None, overrides: dict) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(Qwen3Config(**_common(overrides))).float()
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.data.uniform_(0.5, 1.5)
    _finish(model, path, lively)


def _save_hybrid(path: Path, seed: int, overrides: dict) -> None:
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    torch.manual_seed(seed)
    linear = {
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    }  # fmt: skip
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**_common({**linear, **overrides}))).float()
    for name, weight in model.named_parameters():
        if "norm" in name:  # Qwen3.5 scales by 1 + weight, except in the gated norm
            weight.data.uniform_(*((0.5, 1.5) if "linear_attn" in name else (-0.3, 0.3)))
        if name.endswith("dt_bias"):
            weight.data.uniform_(-2, 0)
    _finish(model, path, LIVELY)
    edit_json(path / "config.json", full_attention_interval=4)  # SGLang asks for it


def _finish(model, path: Path, lively: tuple[int, ...] | None) -> None:
    if lively is not None:
        alive = torch.zeros(model.lm_head.weight.shape[0], 1)
        alive[list(lively)] = 1.0
        model.lm_head.weight.data.mul_(alive)
    model.save_pretrained(path)
    save_tokenizer(path)


def _save_dflash(path: Path, seed: int, overrides: dict) -> None:
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    config = {
        **_common({}), "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu", "attention_bias": False,
        "torch_dtype": "float32", "num_target_layers": 4, "block_size": 4,
        "layer_types": ["full_attention"] * 2,
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": [0, 2], "block_size": 4}, **overrides,
    }  # fmt: skip
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    taps = len(config["dflash_config"]["target_layer_ids"])
    tensors = {"fc.weight": (width, taps * width), "hidden_norm.weight": (width,), "norm.weight": (width,)}
    for layer in range(config["num_hidden_layers"]):
        for name, shape in {
            "self_attn.q_proj": (queries, width), "self_attn.k_proj": (keys, width),
            "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, queries),
            "self_attn.q_norm": (head,), "self_attn.k_norm": (head,), "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width), "mlp.down_proj": (width, inner), "input_layernorm": (width,),
            "post_attention_layernorm": (width,),
        }.items():  # fmt: skip
            tensors[f"layers.{layer}.{name}.weight"] = shape
    weights = {n: torch.ones(s) if len(s) == 1 else torch.randn(s) * 0.2 for n, s in tensors.items()}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(config, indent=1))
    save_tokenizer(path)


def _save_dspine(path: Path, seed: int, changes: dict) -> None:
    config = replace(
        TINY, hidden_size=64, head_dim=16, intermediate_size=128, vocab_size=VOCAB, mask_token_id=MASK, block_size=8,
        transfer_rank=32, message_size=16, rope_theta=1e6, max_position_embeddings=1024,
    )  # fmt: skip
    write_checkpoint(path, replace(config, **changes), seed=seed, dtype=torch.float32)


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}, indent=1))


@cache
def transformers_model(path: str):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def hf_greedy(path: str, ids: list[int], count: int) -> list[int]:
    """The next `count` tokens by transformers in float32, greedy, end-of-sequence ignored."""
    return list(_hf_greedy(path, tuple(ids), count))


@cache
@torch.no_grad()
def _hf_greedy(path: str, ids: tuple[int, ...], count: int) -> tuple[int, ...]:
    model, text, past = transformers_model(path), list(ids), None
    for _ in range(count):
        step = torch.tensor([text if past is None else text[-1:]])
        out = model(step, past_key_values=past, use_cache=True)
        past = out.past_key_values
        text.append(int(out.logits[0, -1].argmax()))
    return tuple(text[len(ids) :])
