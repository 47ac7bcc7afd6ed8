"""Times of calls replayed from CUDA graphs, and what the GPU's memory and matrix units do at best."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from .budget import Machine


@dataclass(frozen=True)
class Time:
    """Microseconds a call: median and range over replays."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Time:
        return cls(statistics.median(times), min(times), max(times))


def captured(calls: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """One graph of all calls, in order, after each ran once outside of it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def timed(arms: Mapping[str, Sequence[Callable[[], object]]], replays: int = 6) -> dict[str, Time]:
    """Time each arm's calls, arms in turns (A B B A), by CUDA events around replays of one graph an arm.

    An arm's calls should touch more memory together than the L2 cache holds, or it is the cache that is timed.
    """
    graphs = {name: captured(calls) for name, calls in arms.items()}
    found: dict[str, list[float]] = {name: [] for name in arms}
    forth = list(arms)
    for name in (forth + forth[::-1]) * (replays // 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graphs[name].replay()  # warm: clocks, and no gap before the timed one
        begin.record()
        graphs[name].replay()
        end.record()
        end.synchronize()
        found[name].append(1e3 * begin.elapsed_time(end) / len(arms[name]))
    return {name: Time.of(times) for name, times in found.items()}


def measured_machine() -> Machine:
    """This GPU: bytes a second of a large copy or sum, whichever moves more; BF16 and FP8 products of 8,192 cubed.

    A copy alone would be no floor: reads, which are most of a draft round, go faster than reads and writes in turn.
    """
    source = torch.zeros(1 << 28, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copy = timed({"copy": [lambda: torch.add(source, 1.0, out=target)]})["copy"]
    read = timed({"read": [lambda: source.sum()]})["read"]
    rate = 1e6 * source.nbytes * max(2 / copy.median, 1 / read.median)
    n = 8192
    a, b = (torch.randn(n, n, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    bf16 = timed({"bf16": [lambda: a @ b.T]})["bf16"]
    one = torch.ones((), device="cuda")
    c, d = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    product = lambda: torch._scaled_mm(c, d.T, one, one, out_dtype=torch.bfloat16)  # noqa: E731
    fp8 = timed({"fp8": [product]})["fp8"]
    flops = 2 * n**3
    return Machine(
        torch.cuda.get_device_name(),
        rate,
        1e6 * flops / bf16.median,
        1e6 * flops / fp8.median,
    )
