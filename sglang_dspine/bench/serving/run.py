"""A run: visits of the arms in the order A B B A, every cell written to disk as soon as it is measured."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import httpx

from ...errors import DSpineError
from ...evidence.recorded import Recorded
from ...serve.hardware import find_gpu
from .arm import Arm
from .cell import Cell, summarise
from .load import play
from .servers import Servers
from .watch import watching
from .workload import Workload, tokenise

STATED = (
    "model_path", "dtype", "quantization", "kv_cache_dtype", "context_length", "attention_backend", "page_size",
    "mamba_ssm_dtype", "max_running_requests", "mem_fraction_static", "tp_size", "disable_overlap_schedule",
    "cuda_graph_backend_decode", "cuda_graph_backend_prefill", "speculative_algorithm", "speculative_num_draft_tokens",
    "speculative_draft_model_path", "speculative_draft_model_quantization", "speculative_draft_kv_cache_dtype",
    "speculative_draft_attention_backend", "speculative_draft_window_size",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    arms: tuple[Arm, ...]
    users: tuple[int, ...]
    repetitions: int
    seed: int
    sampling: dict[str, Any]
    recorded: Sequence[Recorded]
    source: str
    cold: bool = False  # empty the prefix cache before every cell
    api_key: str | None = field(default=None, repr=False)

    @property
    def seeds(self) -> list[int]:
        return [self.seed + 1000 * i for i in range(self.repetitions)]

    @property
    def cells(self) -> int:
        return len(self.arms) * len(self.users) * self.repetitions

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


@dataclass(frozen=True)
class Told:
    """Whom to tell what; every one may be left out."""

    cell: Callable[[Cell], None] = lambda cell: None  # one is done
    turn: Callable[[], None] = lambda: None  # one request is answered
    phase: Callable[[str], None] = lambda text: None  # what is done now


def order(arms: Sequence[Arm], repetitions: int) -> list[tuple[int, Arm]]:
    """(repetition, arm) of each visit: there and back again, so that a drift of the machine hits all arms alike."""
    return [(i, arm) for i in range(repetitions) for arm in (arms if i % 2 == 0 else tuple(reversed(arms)))]


def run(plan: Plan, servers: Servers, folder: Path, told: Told | None = None) -> list[Cell]:
    """Measure all cells. `folder` gets run.json, cells.jsonl and requests.jsonl; it must hold no other run."""
    told = told or Told()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "cells.jsonl").exists():
        raise DSpineError(f"{folder} holds a run already; expected a new folder")
    cells: list[Cell] = []
    warm: set[str] = set()
    stated: dict[str, dict[str, Any]] = {}  # what each arm's server says it runs with
    workload: Workload | None = None
    for repetition, arm in order(plan.arms, plan.repetitions):
        url, fresh = servers.url(arm)
        stated[arm.name] = stated.get(arm.name) or _stated(plan, url)
        if workload is None:
            workload = _tokenise(plan, url, stated[arm.name].get("context_length"))
        _write_header(folder, plan, workload, servers, stated)
        if fresh or arm.name not in warm:
            told.phase(f"{arm.name}: warm pass, not measured")
            play(url, workload, max(plan.users), plan.seeds[repetition], headers=plan.headers, progress=told.turn)
            warm.add(arm.name)
        for users in plan.users:
            told.phase(f"{arm.name}: {users} users, repetition {repetition + 1} of {plan.repetitions}")
            cell = _measure(plan, workload, folder, arm, url, users, repetition, told)
            cells.append(cell)
            told.cell(cell)
    return cells


def _measure(
    plan: Plan, workload: Workload, folder: Path, arm: Arm, url: str, users: int, repetition: int, told: Told
) -> Cell:
    if plan.cold:
        _flush(url, plan)
    seed = plan.seeds[repetition]
    with watching() as machine:
        played = play(url, workload, users, seed, headers=plan.headers, progress=told.turn)
    cell = summarise(played, arm.name, users, repetition, seed, machine.to_dict())
    with (folder / "requests.jsonl").open("a") as file:
        for answer in played.answers:
            file.write(
                json.dumps({"arm": arm.name, "users": users, "repetition": repetition, **answer.to_dict()}) + "\n"
            )
    with (folder / "cells.jsonl").open("a") as file:
        file.write(json.dumps(cell.to_dict()) + "\n")
    if cell.failed == cell.requests:
        raise DSpineError(f"arm {arm.name}, {users} users: no request was answered: {'; '.join(cell.errors)}")
    return cell


def _stated(plan: Plan, url: str) -> dict[str, Any]:
    try:
        answer = httpx.get(f"{url}/server_info", headers=plan.headers, timeout=60, trust_env=False)
    except httpx.HTTPError as error:
        raise DSpineError(f"{url}: {error}; expected a running SGLang server") from error
    found = answer.json() if answer.status_code == 200 else {}
    return {name: found[name] for name in STATED if found.get(name) is not None}


def _tokenise(plan: Plan, url: str, room: int | None) -> Workload:
    with httpx.Client(base_url=url, headers=plan.headers, timeout=120, trust_env=False) as http:
        workload = tokenise(plan.recorded, http, plan.sampling, plan.source, room)
    if len(workload.conversations) < max(plan.users):
        raise DSpineError(
            f"{len(workload.conversations)} conversations cannot keep {max(plan.users)} users busy; "
            "expected at least one a user"
        )
    return workload


def _flush(url: str, plan: Plan) -> None:
    answer = httpx.post(f"{url}/flush_cache", headers=plan.headers, timeout=60, trust_env=False)
    if answer.status_code != 200:
        raise DSpineError(
            f"{url}/flush_cache: status {answer.status_code}, {answer.text[:200]}; expected an idle server"
        )


def _write_header(
    folder: Path, plan: Plan, workload: Workload, servers: Servers, stated: dict[str, dict[str, Any]]
) -> None:
    """Anew at every visit: each one may start a server whose command and settings were not known before."""
    header = {
        "arms": [
            arm.to_dict() | {"command": servers.commands.get(arm.name), "server": stated.get(arm.name)}
            for arm in plan.arms
        ],
        "users": plan.users,
        "repetitions": plan.repetitions,
        "seeds": plan.seeds,
        "sampling": plan.sampling,
        "workload": {
            "source": plan.source,
            "conversations": len(workload.conversations),
            "turns": workload.turns,
            "prompt_tokens": sum(len(turn) for c in workload.conversations for turn in c.turns),
            "fingerprint": workload.fingerprint,
        },
        "cache": "cold" if plan.cold else "warm",
        "host": {"machine": platform.machine(), "gpu": None if (gpu := find_gpu()) is None else str(gpu)},
        "versions": {name: _version(name) for name in ("sglang", "sglang-dspine", "torch")},
        "written": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    (folder / "run.json").write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
