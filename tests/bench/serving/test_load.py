"""A closed loop of users, and what it notes about each answer."""

import time

import pytest

from sglang_dspine.bench.serving.answer import repetition
from sglang_dspine.bench.serving.cell import summarise
from sglang_dspine.bench.serving.load import play
from sglang_dspine.bench.serving.workload import Conversation, Workload

from .stub import Stub, serving

SAMPLING = {"temperature": 0, "max_new_tokens": 13}


def workload(conversations: int = 6, turns: int = 2, **sampling) -> Workload:
    found = [
        Conversation(f"c{i}", tuple(tuple([i] * (10 * (t + 1))) for t in range(turns))) for i in range(conversations)
    ]
    return Workload(tuple(found), SAMPLING | sampling, "test")


@pytest.mark.parametrize("users", [1, 3])
def test_never_more_requests_at_once_than_users_and_all_turns_are_played_in_order(users):
    stub = Stub(pause=0.002)
    with serving(stub) as url:
        played = play(url, workload(), users, seed=1)
    assert stub.busiest == users
    assert len(played.answers) == 12 and not any(a.error for a in played.answers)
    for name in range(6):
        assert [len(body["input_ids"]) for body in stub.asked if body["input_ids"][0] == name] == [10, 20]


def test_the_seed_orders_the_conversations_and_seeds_the_sampling():
    sent = []
    for seed in (1, 1, 2):
        stub = Stub()
        with serving(stub) as url:
            play(url, workload(), 1, seed)
        sent.append([(b["input_ids"][0], b["sampling_params"]["sampling_seed"]) for b in stub.asked])
    assert sent[0] == sent[1] and [i for i, _ in sent[0]] != [i for i, _ in sent[2]]
    assert not {s for _, s in sent[0]} & {s for _, s in sent[2]}
    assert len({s for _, s in sent[0]}) == 12


def test_counts_are_the_servers_own():
    stub = Stub(blocks=(5, 1), speculates=True)
    with serving(stub) as url:
        began = time.perf_counter()
        played = play(url, workload(4, 1), 2, seed=1)
        took = time.perf_counter() - began
    cell = summarise(played, "arm", 2, 0, 1, {})
    assert cell.requests == 4 and cell.failed == 0 and cell.completion_tokens == 4 * 13
    assert cell.seconds <= took and cell.tok_s == pytest.approx(52 / cell.seconds)
    assert cell.accepted_length == 12 / 4  # a round of 5 and one of 1, twice; the first token is the prefill's
    assert cell.accepted[0] == 8 and cell.accepted[4] == 8 and sum(cell.accepted) == 16
    assert cell.widths == (*[0] * 8, 16)
    assert cell.rounds_of == {f"c{i}": (12, 4) for i in range(4)}
    assert cell.cached_share == 0.5


def test_a_server_that_does_not_speculate_has_no_accepted_length():
    with serving(Stub()) as url:
        cell = summarise(play(url, workload(2, 1), 1, 1), "plain", 1, 0, 1, {})
    assert cell.accepted_length is None and cell.rounds_of == {} and cell.tok_s > 0


def test_a_refused_request_is_counted_and_named_and_the_others_go_on():
    with serving(Stub(fails=(3,))) as url:
        cell = summarise(play(url, workload(), 2, 1), "arm", 2, 0, 1, {})
    assert (cell.requests, cell.failed) == (12, 2) and cell.completion_tokens == 10 * 13
    assert "500" in cell.errors[0]


def test_an_unreachable_server_fails_requests_not_the_run():
    cell = summarise(play("http://127.0.0.1:1", workload(2, 1), 2, 1), "arm", 2, 0, 1, {})
    assert cell.failed == cell.requests == 2 and cell.tok_s is None


@pytest.mark.report(25)
def test_a_loop_repeats_itself_and_a_text_does_not():
    assert repetition([1, 2, 3, 4] * 40) > 0.9
    assert repetition(list(range(200))) == 0.0
    assert repetition([1, 2]) is None
