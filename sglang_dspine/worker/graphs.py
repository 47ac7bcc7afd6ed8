"""Captured graphs of one width, for exactly the batch sizes that use it, each named in the log (reports 18 and 30)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .time_limit import time_limit

logger = logging.getLogger(__name__)
LIMIT_S = 300.0  # a width's first capture may compile kernels


@dataclass(frozen=True)
class Capture:
    """What a model runner is about to capture."""

    role: str  # "target" or "draft"
    width: int
    sizes: tuple[int, ...]  # batch sizes, ascending


def named_runner_class(base: type) -> type:
    """SGLang's decode graph runner that captures what `model_runner.dspine_capture` says."""

    class NamedGraphRunner(base):  # type: ignore[misc, valid-type]
        def __init__(self, model_runner: Any, **settings: Any) -> None:
            self.dspine_capture: Capture = model_runner.dspine_capture
            with only_sizes(self.dspine_capture.sizes):
                super().__init__(
                    model_runner, **{"speculative_num_draft_tokens": self.dspine_capture.width, **settings}
                )

        def capture_one_shape(self, size: int, *args: Any, **settings: Any) -> Any:
            capture, model = self.dspine_capture, self.model_runner.model
            if capture.role == "draft":
                model.width = capture.width
            what = f"the {capture.role} graph of batch {size}, width {capture.width}"
            begin = time.perf_counter()
            with time_limit(f"capturing {what}", float(os.environ.get("DSPINE_CAPTURE_LIMIT_S", LIMIT_S))):
                result = super().capture_one_shape(size, *args, **settings)
            logger.info("DSPINE: captured %s in %.1f s", what, time.perf_counter() - begin)
            return result

    return NamedGraphRunner


@contextmanager
def only_sizes(sizes: tuple[int, ...]) -> Iterator[None]:
    """SGLang reads the batch sizes to capture from its configuration."""
    from sglang.srt.runtime_context import get_exec

    config = get_exec().graph.cuda_graph_config
    with get_exec().graph.override(cuda_graph_config=replace(config, decode=replace(config.decode, bs=list(sizes)))):
        yield


def graphs_wanted(device: Any) -> bool:
    """Whether SGLang is going to capture decode graphs."""
    from sglang.srt.model_executor.cuda_graph_config import Backend
    from sglang.srt.runtime_context import get_exec

    return str(device).startswith("cuda") and get_exec().graph.cuda_graph_config.decode.backend != Backend.DISABLED


def sizes_to_capture(model_runner: Any) -> list[int]:
    """SGLang's own batch sizes, ascending, cut at the most requests that can run."""
    from sglang.srt.runtime_context import get_exec

    asked, limit = get_exec().graph.cuda_graph_config.decode.bs or [1], int(model_runner.req_to_token_pool.size)
    return sorted({min(int(size), limit) for size in asked})


def capture_with(model_runner: Any, capture: Capture) -> None:
    """Let the next capture of this model runner be `capture`."""
    model_runner.dspine_capture = capture
    if "_decode_cuda_graph_runner_cls" not in vars(model_runner):
        base = model_runner._decode_cuda_graph_runner_cls()
        chosen = named_runner_class(base)
        model_runner._decode_cuda_graph_runner_cls = lambda: chosen
