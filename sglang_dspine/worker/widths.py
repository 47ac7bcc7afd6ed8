"""The width of every round: chosen by the policy or forced, run on its own stage, counted, and learned from."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..errors import DSpineError
from ..widths.buckets import buckets_by_width
from ..widths.plan import WidthPlan
from .graphs import Capture, capture_with, graphs_wanted, sizes_to_capture
from .round_clock import RoundClock
from .stages import Half, Stage, build_stage, on_stage
from .width_metrics import WidthMetrics

logger = logging.getLogger(__name__)


class Widths:
    """Owned by the worker. `plan.widest` is SGLang's own width, whose backends and graphs SGLang makes itself."""

    def __init__(self, worker: Any, plan: WidthPlan, metrics: WidthMetrics) -> None:
        self.worker, self.plan, self.policy, self.metrics = worker, plan, plan.policy, metrics
        self.clock = RoundClock()
        self.forced: int | None = None  # by the tuner
        self.stages: dict[int, Stage] = {}
        self._sizes: dict[int, list[int]] = {}
        self._running: deque[tuple[int, int]] = deque()  # rounds whose outcome is not known yet
        self._cap_lens: dict[tuple[int, int], torch.Tensor] = {}
        self._strict = os.environ.get("DSPINE_EAGER_IS_ERROR") == "1"

    # ---- at start

    def narrow_own_capture(self) -> None:
        """Before SGLang captures the graphs of its own width: only for batches that use it."""
        if not graphs_wanted(self.worker.device):
            return
        own = self.plan.widest
        target, draft = self.worker.model_runner, self.worker.draft_model_runner
        captured = sizes_to_capture(target)
        self._sizes = buckets_by_width(self.plan.widths_of, captured)
        self._sizes.setdefault(own, [captured[0]])  # SGLang wants some
        for runner, role in ((target, "target"), (draft, "draft")):
            capture_with(runner, Capture(role, own, tuple(self._sizes[own])))

    def build(self) -> None:
        """After SGLang has captured its own: the other widths, widest first, since later ones reuse its buffers."""
        target, draft = self.worker.model_runner, self.worker.draft_model_runner
        own = self.plan.widest
        self.stages[own] = Stage(own, Half.of(target), Half.of(draft))
        graphs = _captured(target), _captured(draft)
        for width in sorted(set(self.plan.all_widths) - {own}, reverse=True):
            sizes = tuple(self._sizes.get(width, ()))
            wanted = graphs if sizes else (False, False)
            self.stages[width] = build_stage(self.worker, width, sizes, wanted)
        self.worker.draft_model.width = own
        named = ", ".join(f"{width} for batches {self._sizes.get(width, 'all')}" for width in sorted(self.stages))
        logger.info("DSPINE: verify widths by policy %s (%s): %s", self.policy.name, self.plan.table.where, named)

    # ---- per round

    def choose(self, batch: int) -> int:
        """Width of the round that starts now."""
        width = self.forced or self.policy.choose(batch)
        if width not in self.stages:
            raise DSpineError(f"batch of {batch}: width {width} was not prepared, only {sorted(self.stages)}")
        self.clock.start(batch, width)
        self.metrics.round(batch, width)
        self._running.append((batch, width))
        self.worker.speculative_num_draft_tokens = width  # what SGLang's gauge shows
        return width

    def stage(self, width: int) -> AbstractContextManager[None]:
        return on_stage(self.stages[width], self.worker.model_runner, self.worker.draft_model_runner)

    def ran(self, what: str, in_graph: bool, batch: int, width: int) -> None:
        """Count a forward that fell out of the captured graphs although there are some; log the first."""
        if in_graph or not self.worker.graphs_on:
            return
        if self.metrics.eager(what):
            stage = self.stages[width]
            half = stage.target if what == "target" else stage.draft
            logger.warning(
                "DSPINE: the %s ran a batch of %d at width %d eagerly, graphs take up to %d; later ones are counted",
                what, batch, width, half.largest() if half else 0,
            )  # fmt: skip
        if self._strict:
            raise DSpineError(f"DSPINE_EAGER_IS_ERROR: the {what} ran a batch of {batch} at width {width} eagerly")

    def cap_lens(self, batch: int, width: int) -> torch.Tensor:
        """[N] int32, the width of each request's round: SGLang reports it beside the accepted length."""
        key = (batch, width)
        if key not in self._cap_lens:
            self._cap_lens[key] = torch.full((batch,), width, dtype=torch.int32, device=self.worker.device)
        return self._cap_lens[key]

    def finished(self, batch: int, accepted: Sequence[int]) -> None:
        """A round's outcome, in the order of the rounds, on every rank the same. accepted: proposals per request."""
        while self._running:
            size, width = self._running.popleft()
            if size == batch:
                break
        else:
            return
        self.clock.finish(batch, width, sum(accepted) + batch)
        self.metrics.outcome(width, accepted)
        self.policy.note(batch, width, accepted)

    # ---- seen and steered from outside

    def force(self, width: int | None) -> None:
        """Every later round at this width; None: the policy chooses again."""
        self.forced = width
        self.clock.interrupt()

    def report(self) -> dict[str, Any]:
        """Plain JSON for /server_info."""
        return {
            "policy": self.policy.name,
            "table": self.plan.table.where,
            "forced": self.forced,
            "widths": {str(width): self._sizes.get(width, []) for width in sorted(self.stages)},
            "rounds": self.clock.report(),
            "decisions": self.policy.report(),
            **self.metrics.report(),
        }


def _captured(runner: Any) -> bool:
    return isinstance(getattr(runner.decode_cuda_graph_runner, "dspine_capture", None), Capture)
