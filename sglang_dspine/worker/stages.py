"""Attention backends and graphs of one width, for target and draft: SGLang's hold the width as a constant, so each
width has its own, and a round runs on those of its width."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import DSpineError
from .graphs import Capture, capture_with

logger = logging.getLogger(__name__)
RESERVE_GB = 1.0  # what must be left over after the last capture


@dataclass(frozen=True)
class Half:
    """One model runner's share of a stage."""

    backend: Any
    graphs: Any  # None where graphs are off

    @classmethod
    def of(cls, runner: Any) -> Half:
        return cls(runner.attn_backend, runner.decode_cuda_graph_runner)

    def put(self, runner: Any) -> None:
        runner.attn_backend, runner.decode_cuda_graph_runner = self.backend, self.graphs

    def largest(self) -> int:
        """The largest batch that a graph takes; 0 without graphs."""
        return int(getattr(self.graphs, "max_bs", 0) or 0)


@dataclass(frozen=True)
class Stage:
    """Everything of one width; plain decode drafts nothing."""

    width: int
    target: Half
    draft: Half | None


@contextmanager
def on_stage(stage: Stage, target_runner: Any, draft_runner: Any) -> Iterator[None]:
    """Run on this stage; prefill and idle rounds, outside, keep SGLang's own."""
    kept = Half.of(target_runner), Half.of(draft_runner)
    stage.target.put(target_runner)
    if stage.draft is not None:
        stage.draft.put(draft_runner)
    try:
        yield
    finally:
        kept[0].put(target_runner)
        kept[1].put(draft_runner)


def build_stage(worker: Any, width: int, sizes: tuple[int, ...], graphs: tuple[bool, bool]) -> Stage:
    """Backends of `width`, and graphs of these batch sizes where (target, draft) have any.

    Raises:
        DSpineError: less memory is left than a server needs; the message says what to give up.
    """
    from sglang.srt.runtime_context import get_spec
    from sglang.srt.speculative.spec_utils import draft_pp_context, draft_tp_context

    begin, before = time.perf_counter(), free_gb(worker)
    with get_spec().override(speculative_num_draft_tokens=width):
        target = _half(worker.model_runner, Capture("target", width, sizes), graphs[0], new_workspace=True)
        draft = None
        if width > 1:
            with draft_pp_context(), draft_tp_context(worker.draft_parallel_layout):
                draft = _half(worker.draft_model_runner, Capture("draft", width, sizes), graphs[1])
    left = free_gb(worker)
    logger.info(
        "DSPINE: width %d: attention backends%s; %.1f s, %.2f GB, %.2f GB left",
        width, f" and graphs for batches {list(sizes)}" if any(graphs) else "", time.perf_counter() - begin,
        before - left, left,
    )  # fmt: skip
    if any(graphs) and left < RESERVE_GB:
        raise DSpineError(
            f"{left:.2f} GB of GPU memory left after capturing width {width}, expected at least {RESERVE_GB:.0f}; "
            "lower --mem-fraction-static or --cuda-graph-max-bs-decode, or use fewer widths (DSPINE_WIDTHS, SPS table)"
        )
    return Stage(width, target, draft)


def _half(runner: Any, capture: Capture, graphs: bool, new_workspace: bool = False) -> Half:
    kept = runner.init_new_workspace
    backend = runner._get_attention_backend(init_new_workspace=new_workspace)
    runner.init_new_workspace = kept
    for name in ("prefill_attention_backend_str", "decode_attention_backend_str"):
        setattr(backend, name, getattr(runner, name))
    runner.kv_index_translator.bind_and_verify_backends([backend])
    if not graphs:
        return Half(backend, None)
    capture_with(runner, capture)
    chosen = runner._decode_cuda_graph_runner_cls()
    return Half(backend, chosen(runner, attn_backend=backend, speculative_num_draft_tokens=capture.width))


def free_gb(worker: Any) -> float:
    from sglang.srt.utils.common import get_available_gpu_memory

    if not str(worker.device).startswith("cuda"):
        return 0.0
    return float(get_available_gpu_memory("cuda", worker.gpu_id))
