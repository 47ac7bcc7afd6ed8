"""Targets with their drafters, as the tests serve them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .models import dense_qwen3, dspine_drafter, hybrid_qwen35

DEMO = Path(__file__).resolve().parents[2] / "demo"
EXTRA_BUFFER = {  # the hybrid set-up that SGLang lets run with overlap and a prefix cache that keeps recurrent states
    "mamba_radix_cache_strategy": "extra_buffer",
    "disable_overlap_schedule": False,
    "mamba_track_interval": 64,
}


@dataclass(frozen=True)
class Pair:
    """Folders of a target and of a DSpine drafter for it."""

    target: str
    draft: str

    def served(self, engines, **server_args):
        """An idle engine that drafts, its prefix cache empty."""
        draft = {"speculative_algorithm": "DSPINE", "speculative_draft_model_path": self.draft}
        return engines(self.target, **draft, **server_args)

    def plain(self, engines, **server_args):
        """The same target without a drafter."""
        return engines(self.target, **server_args)


def dense() -> Pair:
    """Random; about a third of the first proposals are accepted."""
    return Pair(dense_qwen3(), dspine_drafter())


def hybrid() -> Pair:
    """Random, three gated-delta layers to one of attention."""
    return Pair(hybrid_qwen35(), dspine_drafter())


def full_rank() -> Pair:
    """Random and dense, every token of the vocabulary with a score of its own: no ties among candidates, no luck."""
    return Pair(dense_qwen3(lively=None), dspine_drafter())


def demo() -> Pair:
    """The trained hybrid pair of the repository, block 16."""
    return Pair(str(DEMO / "target"), str(DEMO / "draft"))


@cache
def held_out_code(count: int, length: int) -> list[list[int]]:
    """Prompts of `length` bytes from modules of the standard library that the demo pair never saw."""
    from demo.text import held_out_prompts, stdlib_path

    return held_out_prompts(stdlib_path(), count, length, seed=5).tolist()
