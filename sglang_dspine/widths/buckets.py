"""Which batch sizes a graph of each width is captured for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def buckets_by_width(widths_of: Callable[[int], Iterable[int]], sizes: Sequence[int]) -> dict[int, list[int]]:
    """Width -> batch sizes to capture, ascending; nothing for batches that never use the width.

    A batch is padded up to the next captured size of its own width. So the end of every run of batch sizes that share a
    width is captured beside SGLang's own sizes within the run, and padding never leaves the run.

    Args:
        widths_of: the widths that a batch of this size may use. sizes: SGLang's sizes, ascending.
    """
    largest = sizes[-1]
    found: dict[int, list[int]] = {}
    for batch in range(1, largest + 1):
        for width in widths_of(batch):
            ends = batch == largest or width not in tuple(widths_of(batch + 1))
            if batch in sizes or ends:
                found.setdefault(width, []).append(batch)
    return found
