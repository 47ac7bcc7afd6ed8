"""The demo's target: a small Qwen3.5-style hybrid, three GatedDeltaNet layers to each attention layer."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationConfig, Qwen3_5ForCausalLM, Qwen3_5TextConfig

from .clock import Clock
from .text import IM_END, VOCAB, Corpus
from .tokenizer import save_tokenizer

MAX_LENGTH = 8192
Log = Callable[[str], None]


def target_config() -> Qwen3_5TextConfig:
    return Qwen3_5TextConfig(
        vocab_size=VOCAB,
        hidden_size=192,
        intermediate_size=320,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        linear_num_key_heads=1,
        linear_num_value_heads=2,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=False,
        initializer_range=0.05,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        bos_token_id=None,
        eos_token_id=IM_END,
        pad_token_id=None,
    )


def new_target() -> Qwen3_5ForCausalLM:
    """Random weights; decay rates start slow enough for a head to remember more than a few bytes."""
    model = Qwen3_5ForCausalLM(target_config()).float()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                p.copy_(torch.empty_like(p).uniform_(1, 16).log())
            if name.endswith("dt_bias"):
                p.copy_(torch.expm1(10 ** torch.empty_like(p).uniform_(-3, -1)).log())
    return model


def optimizer(model: nn.Module, peak: float) -> torch.optim.AdamW:
    """Decay on matrices only: a token never seen keeps its embedding (the mask token is one)."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    matrices = [p for n, p in named if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in named if p.dim() != 2 or "embed" in n]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    fused = next(model.parameters()).is_cuda
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.95), fused=fused)


def descend(loss: torch.Tensor, model: nn.Module, opt: torch.optim.Optimizer, rate: float) -> None:
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    for group in opt.param_groups:
        group["lr"] = rate
    opt.step()


def train_target(
    model: Qwen3_5ForCausalLM,
    corpus: Corpus,
    clock: Clock,
    batch: int,
    length: int,
    log: Log,
    peak: float = 2.5e-3,
) -> None:
    """Next-byte cross-entropy. The last quarter of the time reads windows of twice the length."""
    device = next(model.parameters()).device.type
    opt = optimizer(model, peak)
    while True:
        long = clock.done > 0.75
        rows = corpus.rows(batch // 2 if long else batch, 2 * length if long else length)
        with torch.autocast(device, torch.bfloat16):
            logits = model(input_ids=rows, use_cache=False).logits
        loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), rows[:, 1:].flatten())
        descend(loss, model, opt, clock.rate(peak))
        if clock.step % 100 == 0:
            if not torch.isfinite(loss):
                raise RuntimeError(f"target training diverged at step {clock.step}: try a smaller peak rate")
            log(f"target step {clock.step} {clock.elapsed:.0f}s: {loss.item() / 0.6931:.3f} bits per byte")
        if not clock.tick():
            break
    round_to_bfloat16(model)
    log(f"target: {clock.step} steps in {clock.elapsed:.0f}s")


@torch.no_grad()
def round_to_bfloat16(model: nn.Module) -> None:
    """A float32 run and a bfloat16 run then load the same numbers."""
    for p in model.parameters():
        p.copy_(p.bfloat16())


@torch.no_grad()
def bits_per_byte(model: Qwen3_5ForCausalLM, rows: torch.Tensor) -> float:
    logits = model(input_ids=rows, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), rows[:, 1:].flatten()).item() / 0.6931


@torch.no_grad()
def generate(
    model: Qwen3_5ForCausalLM, prompts: torch.Tensor, count: int, temperature: torch.Tensor | None = None
) -> torch.Tensor:
    """prompts [B, P] -> [B, P + count]; temperature [B], 0 (or None) being greedy. Stops at no token."""
    out = model(input_ids=prompts, use_cache=True, logits_to_keep=1)
    tokens, cache = [prompts], out.past_key_values
    for step in range(count):
        logits = out.logits[:, -1].float()
        token = logits.argmax(-1)
        if temperature is not None:
            noise = -torch.empty_like(logits).exponential_().log()
            drawn = (logits / temperature.clamp_min(1e-3)[:, None] + noise).argmax(-1)
            token = torch.where(temperature > 0, drawn, token)
        tokens.append(token[:, None])
        if step + 1 < count:
            out = model(input_ids=token[:, None], past_key_values=cache, use_cache=True)
    return torch.cat(tokens, 1)


def save_target(model: Qwen3_5ForCausalLM, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stored = copy.deepcopy(model).cpu().bfloat16()
    stored.generation_config = GenerationConfig(eos_token_id=IM_END, do_sample=False)
    stored.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    # The engine's own config class asks for the interval beside the list of layer types.
    config["full_attention_interval"] = 4
    path.write_text(json.dumps(config, indent=2) + "\n")
    save_tokenizer(folder, MAX_LENGTH)


def load_target(folder: Path, device: str = "cpu") -> Qwen3_5ForCausalLM:
    """In float32: the numbers stored in bfloat16, computed without its rounding."""
    model = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    nn.Module.to(model, device)
    return model
