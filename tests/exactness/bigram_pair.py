"""A target and a drafter that is good by construction, small enough for thousands of sampled requests on a CPU.

Target: a Qwen3 whose layers whisper, so that the next token hangs on the last one (a bigram) and a little on the rest.
Drafter: its backbone is silent, and its bridge writes the embedding of the predecessor candidate, so that the
transition table is the bigram part of the target's logits: q is near p, and differs by what the layers add. Only
`ACTIVE` tokens are likely, one for each candidate.

    e_c = unit_0 + D z_c            embedding; D [H, m] orthonormal without dimension 0, |z_c| = 1
    code_c = [z_c, 0]               r = 2m, so M = [I, 0] reads z_c
    W = D · 2 sqrt(H) / sqrt(r)     undoes the gate of 1/2, the row's scale |x| / sqrt(H) and the code's sqrt(r)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from ..support.checkpoints import TINY, random_tensors, write_checkpoint
from ..support.models import EOS, MASK, PAD, VOCAB, cached, save_tokenizer
from ..support.pairs import Pair

ACTIVE = tuple(range(65, 73))
HIDDEN, MESSAGE, WHISPER = 64, 16, 0.0075
CONFIG = replace(
    TINY, hidden_size=HIDDEN, head_dim=16, intermediate_size=128, vocab_size=VOCAB, mask_token_id=MASK, block_size=4,
    transfer_rank=2 * MESSAGE, message_size=MESSAGE, top_k=len(ACTIVE), rope_theta=1e6, max_position_embeddings=1024,
)  # fmt: skip


def bigram() -> Pair:
    """The pair, built once."""
    return Pair(cached("bigram-target", _save_target), cached("bigram-draft", _save_draft))


def _parts() -> dict[str, torch.Tensor]:
    """The numbers both checkpoints share."""
    random = torch.Generator().manual_seed(11)
    directions = torch.zeros(HIDDEN, MESSAGE)
    directions[1:] = torch.linalg.qr(torch.randn(HIDDEN - 1, MESSAGE, generator=random)).Q
    z = torch.nn.functional.normalize(torch.randn(VOCAB, MESSAGE, generator=random), dim=-1)
    z[MASK] = 0.0
    embed = z @ directions.T
    embed[:, 0] = 1.0
    head = torch.zeros(VOCAB, HIDDEN)
    head[:, 0] = -2.0
    head[list(ACTIVE)] = 0.35 * torch.randn(len(ACTIVE), HIDDEN, generator=random)
    head[list(ACTIVE), 0] = 2.0
    return {"directions": directions, "z": z, "embed": embed, "head": head}


def _save_target(path: Path) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(12)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=1024, tie_word_embeddings=False,
        initializer_range=0.2, eos_token_id=EOS, pad_token_id=PAD, bos_token_id=None,
    )  # fmt: skip
    model, parts = Qwen3ForCausalLM(config).float(), _parts()
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weight.data.mul_(WHISPER)
    model.model.embed_tokens.weight.data.copy_(parts["embed"])
    model.lm_head.weight.data.copy_(parts["head"])
    model.save_pretrained(path)
    save_tokenizer(path)


def _save_draft(path: Path) -> None:
    weights, parts = random_tensors(CONFIG, dtype=torch.float32), _parts()
    for name, weight in weights.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")) or "gate.weight" in name or name == "injection.bias":
            weight.zero_()
        if ".writes." in name:
            weight.zero_()
        if ".readouts." in name:
            weight[:MESSAGE] = 0.0  # a mask row says nothing to the row behind it
    last = f"injection.writes.{CONFIG.num_layers - 1}.weight"
    weights[last] = parts["directions"] * 2 * HIDDEN**0.5 / CONFIG.transfer_rank**0.5
    weights["injection.message.weight"] = torch.eye(MESSAGE, CONFIG.transfer_rank)
    weights["norm.weight"] = torch.ones(HIDDEN)
    codes = torch.cat([parts["z"], torch.zeros(VOCAB, MESSAGE)], dim=1)
    codes[MASK, -1] = 1.0  # a unit row as well
    weights["transfer_codes"] = codes
    write_checkpoint(path, CONFIG, tensors=weights)
