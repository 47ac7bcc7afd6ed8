"""A running server is asked for its widths and told one; reports count the proposals that were made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sglang_dspine.worker import control


@pytest.fixture
def controller():
    told = []
    widths = SimpleNamespace(
        stages={1: None, 8: None}, force=told.append, report=lambda: {"policy": "table"},
        clock=SimpleNamespace(interrupt=lambda: told.append("interrupt"), reset=lambda: told.append("reset")),
    )  # fmt: skip
    return SimpleNamespace(scheduler=SimpleNamespace(draft_worker=SimpleNamespace(widths=widths)), told=told)


def test_a_width_is_forced_and_released(controller):
    handlers = control.with_our_handlers(lambda self: {"theirs": 1}, controller)
    assert "theirs" in handlers
    for value in (8, 0):
        handlers["dspine_width"].validate("dspine_width", value)
        handlers["dspine_width"].apply("dspine_width", value)
    handlers["dspine_reset"].apply("dspine_reset", 1)
    assert controller.told == [8, None, "reset"]


def test_a_width_that_was_not_prepared_is_rejected_with_those_that_were(controller):
    from sglang.srt.managers.scheduler_components.internal_state import UpdateRejected

    handlers = control.with_our_handlers(lambda self: {}, controller)
    with pytest.raises(UpdateRejected, match=r"prepared were \[1, 8\]"):
        handlers["dspine_width"].validate("dspine_width", 16)


def test_the_report_is_part_of_the_servers_state_and_no_interval_holds_the_question(controller):
    state = {}
    control.add_report(None, controller, state)
    assert state == {"dspine": {"policy": "table"}} and controller.told == ["interrupt"]


def test_another_algorithms_server_is_left_as_it_is():
    other = SimpleNamespace(scheduler=SimpleNamespace(draft_worker=None))
    state = {}
    control.add_report(None, other, state)
    assert state == {} and control.with_our_handlers(lambda self: {"a": 1}, other) == {"a": 1}


def test_a_requests_rate_is_against_the_proposals_of_its_widths():
    meta = {"spec_verify_ct": 10, "spec_cap_length": 4.6, "spec_num_correct_drafts": 18, "spec_accept_rate": 0.12}
    control.count_real_proposals(None, None, meta, None, 0)
    assert meta["spec_num_proposed_drafts"] == 36 and meta["spec_accept_rate"] == 0.5


def test_a_request_served_by_plain_decode_alone_has_proposed_nothing():
    meta = {"spec_verify_ct": 10, "spec_cap_length": 1.0, "spec_num_correct_drafts": 0}
    control.count_real_proposals(None, None, meta, None, 0)
    assert meta["spec_num_proposed_drafts"] == 0 and meta["spec_accept_rate"] == 0.0


def test_a_report_without_widths_is_left_as_it_is():
    meta = {"spec_verify_ct": 10, "spec_accept_rate": 0.5}
    control.count_real_proposals(None, None, meta, None, 0)
    assert meta == {"spec_verify_ct": 10, "spec_accept_rate": 0.5}
