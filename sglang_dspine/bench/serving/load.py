"""So many users at once, each playing one conversation after the other, turn by turn."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from .answer import Answer, ask
from .workload import Workload


@dataclass(frozen=True)
class Played:
    """What one load came to."""

    answers: tuple[Answer, ...]
    seconds: float  # from the first request to the last token


def play(
    url: str,
    workload: Workload,
    users: int,
    seed: int,
    *,
    headers: dict[str, str] | None = None,
    timeout: float = 600.0,
    progress: Callable[[], None] = lambda: None,
) -> Played:
    """Every conversation once, in the order the seed gives; see `answer` for what may have failed."""
    return asyncio.run(_play(url, workload, users, seed, headers or {}, timeout, progress))


async def _play(
    url: str,
    workload: Workload,
    users: int,
    seed: int,
    headers: dict[str, str],
    timeout: float,
    progress: Callable[[], None],
) -> Played:
    waiting = list(enumerate(workload.conversations))
    random.Random(seed).shuffle(waiting)
    waiting.reverse()  # taken from the end
    answers: list[Answer] = []
    limits = httpx.Limits(max_connections=users, max_keepalive_connections=users)
    async with httpx.AsyncClient(
        base_url=url, timeout=timeout, headers=headers, limits=limits, trust_env=False
    ) as http:
        began = time.perf_counter()

        async def user(number: int) -> None:
            while waiting:
                place, conversation = waiting.pop()
                for turn, ids in enumerate(conversation.turns):
                    # heeded by a server with --enable-deterministic-inference, ignored by others
                    sampling = {**workload.sampling, "sampling_seed": (seed * 1_000_003 + place * 101 + turn) % 2**31}
                    started = Answer(conversation.name, turn, number, time.perf_counter() - began)
                    answers.append(await ask(http, ids, sampling, started, began))
                    progress()

        await asyncio.gather(*(user(number) for number in range(users)))
        return Played(tuple(answers), time.perf_counter() - began)
