"""The preflight of a planned server: every finding, the budget, and whether to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config import load_config
from ..errors import DSpineError
from ..preflight.budget import Budget, check_budget, plan_budget, table
from ..preflight.draft import check_pair, local_folder
from ..preflight.files import incomplete
from ..preflight.finding import FAIL, OK, WARN, Finding, failures
from ..preflight.gpu import check_driver
from ..preflight.numbers import check_numbers
from ..preflight.words import value_of
from ..widths.find import FLAG, find_table
from .failure import ServeError
from .native import Plan
from .port import require_free
from .settings import Settings


@dataclass(frozen=True)
class Preflight:
    findings: list[Finding]
    budget: Budget | None

    @property
    def lines(self) -> list[str]:
        return [*(table(self.budget) if self.budget else []), *map(str, self.findings)]


def preflight(plan: Plan, settings: Settings, port: bool = True) -> Preflight:
    """Look at everything; nothing is started, no value of a weight is read. port: False when ours serves on it."""
    words = plan.command.words
    findings = [_gpu(plan), check_driver(plan.driver), *([_port(settings)] if port else []), _target(plan)]
    findings += check_pair(plan.draft, plan.target)
    findings += [_widths(plan), *check_numbers(words)]
    budget = None
    if not failures(findings):
        folder = local_folder(plan.draft)
        config = None if folder is None else load_config(folder)
        budget = plan_budget(plan.target, folder, config, words, plan.memory)
        findings.append(check_budget(budget))
    return Preflight(findings, budget)


def refuse(findings: Sequence[Finding], lenient: bool) -> None:
    """Raise ServeError naming every failure, unless the user has asked to go on."""
    failed = failures(findings)
    if failed and not lenient:
        named = "; ".join(f"{f.what}: {f.found}: {f.todo}" for f in failed)
        hint = "" if all(f.what == "port" for f in failed) else " (PREFLIGHT=warn starts all the same)"
        raise ServeError(f"not started. {named}{hint}")


def _gpu(plan: Plan) -> Finding:
    if plan.gpu is None:
        return Finding(WARN, "GPU", "none", "serving on the CPU is for trying it out")
    return Finding(OK, "GPU", f"{plan.gpu}, profile {plan.profile.name}")


def _port(settings: Settings) -> Finding:
    try:
        require_free(settings.host, settings.port, settings.state)
    except ServeError as error:
        return Finding(FAIL, "port", str(error), "choose another, or free this one")
    return Finding(OK, "port", f"{settings.host}:{settings.port} is free")


def _target(plan: Plan) -> Finding:
    troubles = incomplete(plan.target.folder)
    if troubles:
        found = f"{plan.target.folder}: {'; '.join(troubles[:5])}"
        return Finding(FAIL, "target", found, "download it again, completely")
    missing = [
        name for name in ("tokenizer_config.json", "tokenizer.json") if not (plan.target.folder / name).is_file()
    ]
    if len(missing) == 2 and value_of(plan.command.words, "--tokenizer-path") is None:
        return Finding(
            WARN, "target", f"{plan.target.folder}: no tokenizer beside the weights", "pass --tokenizer-path"
        )
    return Finding(
        OK, "target", f"{plan.target.folder}: weight files whole, {plan.target.quantised or 'not quantised'}"
    )


def _widths(plan: Plan) -> Finding:
    folder = local_folder(plan.draft) or Path("/nonexistent")
    try:
        found = find_table(value_of(plan.command.words, FLAG), folder, None if plan.gpu is None else plan.gpu.name)
    except DSpineError as error:
        return Finding(FAIL, "SPS table", str(error), "correct it, or name another in DSPINE_SPS_TABLE")
    if found is None:
        return Finding(OK, "SPS table", "none for this GPU: every batch is verified at one width")
    status = found.provenance.get("status")
    return Finding(OK, "SPS table", f"{found.where}, of {found.gpu}" + (f": {status}" if status else ""))
