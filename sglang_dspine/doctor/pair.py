"""The target and the drafter that would be served: files, fit, memory, recurrent state a request."""

from __future__ import annotations

from collections.abc import Sequence

from ..preflight.budget import Budget, table
from ..preflight.finding import FAIL, OK, WARN, Finding
from ..preflight.state import state_bytes
from ..preflight.words import number_of
from ..serve.checks import preflight
from ..serve.failure import ServeError
from ..serve.native import Plan, plan
from ..serve.settings import Settings

SEEN = ("GPU", "driver", "port")  # findings of the preflight that need no target


def look_at_pair(settings: Settings, extra: Sequence[str]) -> tuple[list[Finding], Budget | None, list[str]]:
    """Findings, budget, and the budget as lines."""
    if settings.model is None:
        return [Finding(WARN, "target", "not looked at", "name it: --model FOLDER, or MODEL=")], None, []
    try:
        planned = plan(settings, extra)
    except ServeError as error:
        return [Finding(FAIL, "target", str(error), "name the folder that holds the target's config.json")], None, []
    looked = preflight(planned, settings, port=False)
    findings = [finding for finding in looked.findings if finding.what not in SEEN]
    if state := _state(planned):
        findings.append(state)
    return findings, looked.budget, table(looked.budget) if looked.budget else []


def _state(planned: Plan) -> Finding | None:
    """What ReplaySSM saves, in bytes a running request."""
    recurrent, words = planned.target.recurrent, planned.command.words
    if recurrent is None:
        return None
    width = int(number_of(words, "--speculative-num-draft-tokens", 16))
    replay, plain = (state_bytes(recurrent, words, width, replay=on) for on in (True, False))
    chosen = replay if "--enable-linear-replayssm-spec" in words else plain
    found = (
        f"{chosen.total / 1e6:.0f} MB a running request as planned, {chosen.slots} slots of {chosen.slot / 1e6:.1f} MB"
        f"; with ReplaySSM {replay.total / 1e6:.0f} MB, without {plain.total / 1e6:.0f} MB at width {width}, of which "
        f"a verify step's own {replay.verify / 1e6:.1f} and {plain.verify / 1e6:.1f} MB"
    )
    return Finding(OK, "recurrent state", found)
