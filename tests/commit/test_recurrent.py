"""Recurrent states: the step each request commits, and the step whose state the prefix cache keeps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang.srt import runtime_context
from sglang.srt.speculative import spec_utils

from sglang_dspine.commit.recurrent import commit_recurrent, history_room, track_steps


@settings(max_examples=200, deadline=None, derandomize=True)
@given(before=st.integers(0, 300), commit=st.integers(1, 16), interval=st.sampled_from([1, 4, 64, 128]))
@pytest.mark.report(14)
def test_the_tracked_step_ends_at_the_last_multiple_of_the_interval_that_the_round_reached(before, commit, interval):
    """Block step s holds the state after position before + s, that is of a prefix of before + s + 1 tokens."""
    multiples = [s for s in range(commit) if (before + s + 1) % interval == 0]
    expected = multiples[-1] if multiples else -1
    lens = torch.tensor([before]), torch.tensor([before + commit]), torch.tensor([commit])
    assert track_steps(*lens, interval).tolist() == [expected]


def test_requests_of_a_batch_are_tracked_each_on_its_own():
    before, commit = torch.tensor([60, 63, 64, 10]), torch.tensor([4, 1, 16, 5])
    found = track_steps(before, before + commit, commit, 64)
    assert found.tolist() == [3, 0, -1, -1] and found.dtype == torch.int64


@pytest.fixture
def committed(monkeypatch):
    calls = []
    monkeypatch.setattr(runtime_context, "mamba_track_grid", lambda page_size: 64)
    monkeypatch.setattr(
        spec_utils, "commit_mamba_states_after_verify", lambda *args, **kwargs: calls.append((args, kwargs))
    )

    def commit(batch, before, lens, width, room=16):
        commit_recurrent("worker", batch, torch.tensor(before), torch.tensor(lens), width, room)
        ((args, kwargs),) = calls
        assert args == ("worker", batch)
        return kwargs

    return commit


def batch_of(tracked) -> SimpleNamespace:
    return SimpleNamespace(mamba_track_indices=tracked, tree_cache=SimpleNamespace(page_size=1))


def test_the_committed_step_is_the_last_token_of_the_run(committed):
    """Accepted length counts the bonus, which has no row yet; anchor and proposals are rows 0 .. length - 1."""
    given = committed(batch_of(None), [5, 9, 30], [1, 4, 8], width=8)
    steps, tracked = given["prepared_step_indices"]
    assert steps.tolist() == [0, 3, 7] and tracked is None
    assert given["accept_lens"].tolist() == [1, 4, 8]
    assert given["accept_index"].tolist() == torch.arange(24).view(3, 8).tolist()


def test_a_prefix_cache_that_keeps_states_is_told_the_step(committed):
    given = committed(batch_of(torch.tensor([3, 4])), [62, 70], [4, 4], width=8)
    assert given["prepared_step_indices"][1].tolist() == [1, -1]


def test_a_history_leaves_room_for_the_widest_verify_of_the_server(committed):
    """Report 2: a ring filled under a narrow width must not overflow under a wide one."""
    assert committed(batch_of(torch.tensor([3])), [5], [2], width=4, room=16)["draft_token_num"] == 16


@pytest.mark.parametrize(("tracked", "room"), [(None, 16), (torch.tensor([3]), None), (None, None)])
def test_no_history_outlasts_its_round_where_something_else_takes_the_state_up(committed, tracked, room):
    """Without extra buffers the prefix cache does, in mixed steps the next extend."""
    assert 2 * committed(batch_of(tracked), [5], [2], width=4, room=room)["draft_token_num"] > 1 << 20


@pytest.mark.parametrize(("mixed", "room"), [(False, 16), (True, None)])
def test_mixed_steps_leave_no_room_for_histories(mixed, room):
    assert history_room(SimpleNamespace(enable_mixed_chunk=mixed), 16) == room
