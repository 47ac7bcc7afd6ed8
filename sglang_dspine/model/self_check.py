"""Is the draft that was loaded the one in the checkpoint?

A quantised draft can load without an error and accept nothing (report 7). So at start a fixed probe goes through the
served draft, and through the reference on the checkpoint's own BF16 values: block states and their top-1 tokens are
compared, and each linear layer's output by itself, which names the layer at fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..config import DraftConfig
from ..errors import DSpineError

# What a sound FP8 draft shows is in tests/sglang/test_self_check.py, with what each planted fault does to it.
MAX_LINEAR_ERROR = 0.10  # of one layer's output, relative, worst layer; a cosine would not see a wrong scale
MIN_COSINE = 0.95  # of block states, mean over rows
MIN_TOP1 = 0.60  # share of rows with the same first candidate
BLOCKS, CONTEXT = 4, 24

# module of the served draft -> the checkpoint's weights that stand one above the other in it
PARTS = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attn.o_proj": ("self_attn.o_proj",),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down_proj": ("mlp.down_proj",),
}


@dataclass(frozen=True)
class Probe:
    """Blocks to draft behind synthetic captures: the same numbers on every machine, made on the CPU."""

    taps: torch.Tensor  # [N, S, taps·H] float32
    anchors: torch.Tensor  # [N]
    lengths: torch.Tensor  # [N] context rows that count


def make_probe(config: DraftConfig) -> Probe:
    random = torch.Generator().manual_seed(20)
    width = len(config.target_layer_ids) * config.hidden_size
    taps = torch.randn(BLOCKS, CONTEXT, width, generator=random)
    anchors = torch.randint(config.vocab_size, (BLOCKS,), generator=random)
    lengths = torch.tensor([CONTEXT - 5 * block for block in range(BLOCKS)])
    return Probe(taps, anchors, lengths)


def linear_errors(model: Any, weights: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, float]]:
    """Name and relative error of every served linear layer of which `weights` holds all parts; on one rank only."""
    prefixes = {name.rsplit(".", 3)[0] for name in weights if name.startswith("layers.")}
    modules = {f"{prefix}.{name}": parts for prefix in sorted(prefixes) for name, parts in PARTS.items()}
    for name, parts in [("fc", ("fc",)), *modules.items()]:
        root = name.rsplit(".", 2)[0] + "." if name != "fc" else ""
        stored = [weights.get(f"{root}{part}.weight") for part in parts]
        if not any(weight is None for weight in stored):
            yield name, _output_error(model.get_submodule(name), [weight for weight in stored if weight is not None])


def _output_error(module: Any, parts: list[torch.Tensor]) -> float:
    """Largest |served - x Wᵀ| / |x Wᵀ| over probe rows; infinite if anything is not finite; none for zeros from zeros.

    SGLang may pad a layer's input and each of its parts: columns beyond the checkpoint's are not compared.
    """
    random = torch.Generator().manual_seed(21)
    x = torch.randn(8, parts[0].shape[1], generator=random, device="cpu").to(parts[0])
    padding = getattr(module, "input_size", x.shape[1]) - x.shape[1]
    served = module(torch.nn.functional.pad(x, (0, padding)))
    served = served[0] if isinstance(served, tuple) else served
    columns = served.split(getattr(module, "output_sizes", [len(part) for part in parts]), dim=-1)
    real = [column[:, : len(part)] for column, part in zip(columns, parts, strict=True)]
    served, expected = torch.cat(real, -1).float(), (x @ torch.cat(parts).T).float()
    away = (served - expected).norm(dim=-1)
    error = torch.where(away == 0, 0.0, away / expected.norm(dim=-1)).max().item()
    return error if math.isfinite(error) else math.inf


def cosines(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Cosine of each row, -1 where either is not finite. [..., n] twice -> [...]"""
    a, b = a.float(), b.float()
    found = torch.nn.functional.cosine_similarity(a, b, dim=-1)
    return torch.where(a.isfinite().all(-1) & b.isfinite().all(-1), found, -1.0)


@dataclass(frozen=True)
class Findings:
    """Numbers of one check."""

    rows: int
    same_top1: int
    cosine: float  # mean over rows
    lowest_cosine: float
    worst_linear: str  # "" when layers were not compared one by one
    linear_error: float

    @property
    def top1(self) -> float:
        return self.same_top1 / self.rows

    def __str__(self) -> str:
        text = (
            f"top-1 the same in {self.same_top1} of {self.rows} rows, cosine {self.cosine:.4f} "
            f"(lowest {self.lowest_cosine:.4f})"
        )
        if self.worst_linear:
            text += f", largest error of a layer {self.linear_error:.4f} in {self.worst_linear}"
        return text

    def require(self) -> None:
        """Raises DSpineError with all numbers when any is below its threshold."""
        failed = []
        if self.worst_linear and not self.linear_error <= MAX_LINEAR_ERROR:
            failed.append(f"error of {self.worst_linear} at most {MAX_LINEAR_ERROR}")
        if not self.cosine >= MIN_COSINE:
            failed.append(f"mean cosine at least {MIN_COSINE}")
        if not self.top1 >= MIN_TOP1:
            failed.append(f"the same top-1 in at least {MIN_TOP1:.0%} of rows")
        if failed:
            raise DSpineError(
                f"DSPINE self-check: the loaded draft is not the checkpoint's: {self}; expected {', '.join(failed)}. "
                "Convert the checkpoint again, or serve it with --speculative-draft-model-quantization unquant; "
                "DSPINE_SELF_CHECK=0 serves it as it is, at the price of few accepted tokens"
            )


def compare(served: torch.Tensor, reference: torch.Tensor, top1: Any, linears: Mapping[str, float]) -> Findings:
    """Block states [N, B, H] of both, anchor rows left out; top1: states [R, H] -> token ids [R]."""
    a, b = served[:, 1:].flatten(0, 1), reference[:, 1:].flatten(0, 1)
    agreement = cosines(a, b)
    same = top1(a) == top1(b.to(a.dtype))
    worst = max(linears, key=lambda name: linears[name]) if linears else ""
    return Findings(
        len(a), int(same.sum()), float(agreement.mean()), float(agreement.min()), worst, linears.get(worst, 0.0)
    )
