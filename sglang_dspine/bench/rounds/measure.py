"""Milliseconds a round: what longer answers take beyond short ones, by the rounds they need more.

Prompts are random ids; answers run to a fixed length. Both are sent with the same prompts and the prefix cache off, so
that everything but the extra rounds cancels.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from ...tuning.server import updated

SHORT, LONG = 24, 152  # tokens an answer


@dataclass(frozen=True)
class Sample:
    """One load of equal requests."""

    seconds: float
    tokens: int  # all users
    rounds: int  # of the request that took most


@dataclass(frozen=True)
class Rounds:
    """Of one way of serving, at one context and number of users; median, least and most over repetitions."""

    ms: tuple[float, float, float]
    tok_s: float


def prompts(users: int, context: int, seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(1000, 200_000) for _ in range(context)] for _ in range(users)]


def ask(http: httpx.Client, ids: Sequence[int], tokens: int) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    answer = http.post("/generate", json={"input_ids": list(ids), "sampling_params": sampling})
    answer.raise_for_status()
    meta: dict[str, Any] = answer.json()["meta_info"]
    return meta


def load(http: httpx.Client, requests: Sequence[Sequence[int]], tokens: int) -> Sample:
    """All requests at once."""
    with ThreadPoolExecutor(len(requests)) as pool:
        begin = time.perf_counter()
        metas = list(pool.map(lambda ids: ask(http, ids, tokens), requests))
        seconds = time.perf_counter() - begin
    rounds = max(int(m.get("spec_verify_ct") or m["completion_tokens"]) for m in metas)
    return Sample(seconds, sum(int(m["completion_tokens"]) for m in metas), rounds)


def pair(http: httpx.Client, users: int, context: int, seed: int) -> tuple[Sample, Sample]:
    """A short and a long load of the same prompts."""
    requests = prompts(users, context, seed)
    return load(http, requests, SHORT), load(http, requests, LONG)


def rounds_of(pairs: Sequence[tuple[Sample, Sample]]) -> Rounds:
    """Raises ValueError when the long answers took no more rounds than the short ones."""
    if any(long.rounds <= short.rounds for short, long in pairs):
        raise ValueError("long answers took no more rounds than short ones: nothing to divide by")
    ms = [1e3 * (long.seconds - short.seconds) / (long.rounds - short.rounds) for short, long in pairs]
    speeds = [(long.tokens - short.tokens) / (long.seconds - short.seconds) for short, long in pairs]
    return Rounds((statistics.median(ms), min(ms), max(ms)), statistics.median(speeds))


def force_width(http: httpx.Client, width: int) -> None:
    """DSPINE alone: every round at this width, 0 for the policy's choice. Raises ValueError if the server refuses."""
    answer = http.post("/set_internal_state", json={"server_args": {"dspine_width": width}})
    answer.raise_for_status()
    if not updated(answer.json()):
        raise ValueError(f"width {width} was refused: {answer.text[:300]}")


def has_table(http: httpx.Client) -> bool:
    """Whether a DSPINE server chooses by a table; without one it verifies every batch at one width."""
    return bool(http.get("/server_info").json()["internal_states"][0]["dspine"]["policy"] != "fixed")


def memory_gb(http: httpx.Client) -> float | None:
    """Weights, pools and graphs, as the server states them."""
    state = http.get("/server_info").json().get("internal_states") or [{}]
    usage = state[0].get("memory_usage")
    return None if usage is None else usage["weight"] + usage["kvcache"] + sum(usage["graph"].values())
