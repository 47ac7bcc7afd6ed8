"""The target's law: what a token is drawn from after temperature, top-k, top-p and min-p.

Our own plain definition, one row at a time, so that SGLang's samplers can be judged by it. SGLang 0.5.23 knows two
orders, and they differ as soon as top-k and top-p are both set:

    "joint"        both cuts are made on the softmax of the whole vocabulary. Plain decode: `layers/sampler.py`
                   (top_k_top_p_min_p_sampling_from_probs_torch; FlashInfer with filter_apply_order="joint").
    "top_k_first"  top-k, renormalise, then top-p on what is left. Verify of the DFLASH family:
                   `speculative/dflash_utils.py` (build_speculative_verify_target_probs, also reached from
                   `dspark_components/kernels/dspark_accept.py`); and plain decode on FlashInfer as soon as one
                   request of the batch sets min-p (`Sampler._sample_from_probs`).

Speculation must not change the text, so the reference is plain decode: "joint" unless stated (sglang#36173).
Min-p is cut last in both; verify of the DFLASH family has no min-p at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sglang_dspine.errors import DSpineError

Order = Literal["joint", "top_k_first"]


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of a request, with SGLang's defaults."""

    temperature: float = 1.0  # 0 means greedy
    top_k: int = -1  # -1 keeps the whole vocabulary
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or not 0 <= self.min_p <= 1:
            raise DSpineError(f"{self}: expected temperature >= 0, 0 < top_p <= 1 and 0 <= min_p <= 1")
        if self.top_k == 0 or self.top_k < -1:
            raise DSpineError(f"top_k={self.top_k}: expected a positive count, or -1 for the whole vocabulary")

    def params(self) -> dict[str, float | int]:
        """The fields of SGLang's `sampling_params`."""
        return {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
        }


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis in float64."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def target_law(logits: np.ndarray, sampling: Sampling, order: Order = "joint") -> np.ndarray:
    """Probabilities [V] (float64) a token is drawn from, given one row of target logits [V].

    Equal probabilities are ranked by lowest id, so a cut through a tie is reproducible.
    """
    logits = np.asarray(logits, np.float64)
    if sampling.temperature == 0:
        return np.eye(logits.size)[int(logits.argmax())]
    p = softmax(logits / sampling.temperature)
    ranked = np.argsort(-p, kind="stable")
    kept = np.zeros(p.size)
    kept[ranked] = keep_ranked(p[ranked], sampling, order)
    return kept / kept.sum()


def keep_ranked(p: np.ndarray, sampling: Sampling, order: Order) -> np.ndarray:
    """Filtered copy of `p` [C], sorted from most to least probable: zero where cut, not renormalised."""
    k = p.size if sampling.top_k < 0 else min(sampling.top_k, p.size)
    kept = np.where(np.arange(p.size) < k, p, 0.0)
    nucleus = kept / kept.sum() if order == "top_k_first" else p
    before = np.cumsum(nucleus) - nucleus  # mass of the more probable tokens
    kept = np.where(before <= sampling.top_p, kept, 0.0)
    return np.where(kept >= kept[0] * sampling.min_p, kept, 0.0)
