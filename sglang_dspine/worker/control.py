"""What can be asked of a running server and told to it: SGLang's /server_info and /set_internal_state.

    GET  /server_info            internal_states[0]["dspine"]: policy, widths, rounds and step times by width
    POST /set_internal_state     {"server_args": {"dspine_width": 8}} every round at width 8; 0: the policy's again
                                 {"server_args": {"dspine_reset": 1}} forget the step times so far

Both reach all ranks between two rounds. Reports of accepted length count the proposals that were made, not the widest
block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_STATE = "sglang.srt.managers.scheduler_components.internal_state.SchedulerInternalStateController"
_REPORTER = "sglang.srt.managers.scheduler_components.metrics_reporter.SchedulerMetricsReporter.report_decode_stats"
_META = "sglang.srt.managers.tokenizer_manager.TokenizerManager._calculate_spec_decoding_metrics"


@cache
def teach_scheduler() -> None:
    """Once in every scheduler process."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(f"{_STATE}._add_speculative", add_report, HookType.AFTER)
    HookRegistry.register(f"{_STATE}._update_handlers", with_our_handlers, HookType.AROUND)
    HookRegistry.register(_REPORTER, with_mean_width, HookType.AROUND)
    HookRegistry.apply_hooks()


def teach_tokenizer() -> None:
    """In every process that loads plugins; the tokenizer's calls it."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(_META, count_real_proposals, HookType.AFTER)


def add_report(result: None, controller: Any, state: dict[str, Any]) -> None:
    widths = getattr(controller.scheduler.draft_worker, "widths", None)
    if widths is not None:
        widths.clock.interrupt()  # the answer takes time between two rounds
        state["dspine"] = widths.report()


def with_our_handlers(original: Callable[..., dict[str, Any]], controller: Any) -> dict[str, Any]:
    from sglang.srt.managers.scheduler_components.internal_state import UpdateRejected, _UpdateHandler

    handlers = original(controller)
    widths = getattr(controller.scheduler.draft_worker, "widths", None)
    if widths is None:
        return handlers

    def check_width(key: str, value: Any) -> None:
        if int(value) != 0 and int(value) not in widths.stages:
            raise UpdateRejected(f"{key} {value}: prepared were {sorted(widths.stages)}, 0 for the policy's choice")

    handlers["dspine_width"] = _UpdateHandler(check_width, lambda key, value: widths.force(int(value) or None))
    handlers["dspine_reset"] = _UpdateHandler(lambda key, value: None, lambda key, value: widths.clock.reset())
    return handlers


def with_mean_width(original: Callable[..., Any], reporter: Any, *args: Any, **kwargs: Any) -> Any:
    """SGLang's log divides accepted proposals by one fixed width less one; let it see the mean of those used."""
    from sglang.srt.runtime_context import get_spec

    rounds, rows = reporter.spec_num_forward_ct, reporter.spec_num_cap_tokens
    if getattr(reporter.scheduler.draft_worker, "widths", None) is None or not rounds or not rows:
        return original(reporter, *args, **kwargs)
    with get_spec().override(speculative_num_draft_tokens=max(rows / rounds, 1 + 1e-9)):
        return original(reporter, *args, **kwargs)


def count_real_proposals(result: None, manager: Any, meta_info: dict[str, Any], *args: Any) -> None:
    """A request's acceptance rate against the proposals of the widths it was served at."""
    rounds, width = meta_info.get("spec_verify_ct"), meta_info.get("spec_cap_length")
    if not rounds or not width or "spec_num_correct_drafts" not in meta_info:
        return
    proposed = round(rounds * (width - 1))
    meta_info["spec_num_proposed_drafts"] = proposed
    meta_info["spec_accept_rate"] = meta_info["spec_num_correct_drafts"] / proposed if proposed else 0.0
