"""A live server is measured through its own endpoints: widths forced, used, timed and released."""

from __future__ import annotations

import httpx
import pytest

from sglang_dspine.tuning import server
from sglang_dspine.tuning.acceptance import PUBLISHED, measure_acceptance, read_profile, read_prompts
from sglang_dspine.tuning.failure import TuningError
from sglang_dspine.tuning.server import ServerBench, ServerLoad
from sglang_dspine.widths.acceptance import expected_length
from sglang_dspine.worker.round_clock import SETTLED

from ..support import pairs
from ..support.process import GPU


def test_the_published_profile_has_the_published_means():
    assert expected_length(PUBLISHED, 8) == pytest.approx(4.49, abs=0.01)
    assert expected_length(PUBLISHED, 16) == pytest.approx(5.90, abs=0.01)


def test_a_profile_is_a_name_or_probabilities():
    assert read_profile("published") == PUBLISHED and read_profile("0.5,1") == (0.5, 1.0)
    for text in ("", "high", "0.5,2"):
        with pytest.raises(TuningError, match="expected published"):
            read_profile(text)


def test_prompts_are_lines_or_what_stands_between_rules(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("one\n\ntwo\n")
    assert read_prompts(path) == ["one", "two"]
    path.write_text("one\nmore\n---\ntwo\n")
    assert read_prompts(path) == ["one\nmore", "two\n"]
    path.write_text("\n")
    with pytest.raises(TuningError, match="no prompt"):
        read_prompts(path)


def test_a_width_that_was_forced_and_not_used_is_refused():
    load = ServerLoad.__new__(ServerLoad)
    load.batch = 4
    cell = {"batch": 4, "width": 8, "timed": 10, "seconds": 0.5, "finished": 10, "tokens": 80}
    assert load._reading(cell, 8, others=1).ms == 50.0
    with pytest.raises(TuningError, match="width 8 was forced and 9 rounds ran at another"):
        load._reading(cell, 8, others=9)


def test_rounds_far_slower_than_the_last_widths_are_timed_all_the_same(monkeypatch):
    """A question interrupts the clock: asked every 50 ms, rounds of 90 ms would never make a streak."""
    now = [0.0]
    monkeypatch.setattr(server.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(server.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))

    class Bench:
        asked, timed = 0.0, 0

        def tell(self, **settings):
            pass

        def state(self):
            quiet = int((now[0] - self.asked) / 0.09)  # rounds since the last question
            self.timed, self.asked = self.timed + max(0, quiet - SETTLED), now[0]
            cell = {"batch": 2, "width": 16, "rounds": 99, "finished": 9, "tokens": 60, "seconds": 0.09 * self.timed}
            return {"rounds": [cell | {"timed": self.timed}]}

    load = ServerLoad.__new__(ServerLoad)
    load.bench, load.batch, load._seconds, load._errors = Bench(), 2, 0.001, []
    assert load.read(16, 6).ms == pytest.approx(90.0)
    assert now[0] < 10


CLIENT = httpx.Client


def server_of(monkeypatch, **info):
    state = {"internal_states": [{"dspine": {"widths": [1, 8]}}]}
    answer = httpx.MockTransport(lambda _: httpx.Response(200, json=info | state))
    monkeypatch.setattr(server.httpx, "Client", lambda **options: CLIENT(base_url="http://server", transport=answer))
    return ServerBench("http://server", prompt_tokens=400)


def test_random_prompts_stay_inside_the_targets_vocabulary(monkeypatch):
    assert max(server_of(monkeypatch, model_path=pairs.demo().target).prompt()) < 272
    assert max(server_of(monkeypatch, model_path="some/repository").prompt()) < server.LAST


@pytest.mark.parametrize(
    "changed",
    [
        {"kv_cache_dtype": "fp8_e4m3"}, {"speculative_draft_window_size": 2048}, {"disable_overlap_schedule": True},
        {"enable_linear_replayssm_spec": True}, {"cuda_graph_backend_decode": "disabled"}, {"page_size": 16},
        {"speculative_draft_kv_cache_dtype": "fp8_e4m3"},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_a_server_that_serves_otherwise_is_another_one(monkeypatch, changed):
    usual = {"model_path": "t", "kv_cache_dtype": "auto", "disable_overlap_schedule": False, "page_size": 1}
    before = server_of(monkeypatch, **usual).provenance()
    assert server_of(monkeypatch, **usual | changed).provenance() != before


@pytest.mark.full
@pytest.mark.skipif(GPU, reason="serves on the CPU")
def test_a_live_server_runs_the_width_it_is_told_and_the_policys_again_afterwards():
    from ..support.http_server import HttpServer

    pair = pairs.demo()
    settings = {
        "speculative_algorithm": "DSPINE", "speculative_draft_model_path": pair.draft, "max_mamba_cache_size": 32,
        "mamba_ssm_dtype": "float32", "max_total_tokens": 8192,
    }  # fmt: skip
    with HttpServer(pair.target, env={"DSPINE_WIDTHS": "1,4,16"}, **settings) as server:
        bench = ServerBench(server.url, prompt_tokens=40, last_id=250)
        assert bench.widths() == (1, 4, 16)
        with pytest.raises(TuningError, match="refused"):
            bench.tell(dspine_width=7)
        with bench.load(2) as load:
            readings = {width: load.read(width, 6) for width in (1, 16, 4)}
            by_policy = load.read(0, 6)
        assert readings[1].accepted == 1.0 and all(r.rounds >= 6 and r.ms > 0 for r in readings.values())
        assert by_policy.accepted > 1.0
        assert bench.state()["forced"] is None
        profile = measure_acceptance(bench, ["def add(a, b):\n", "import os\n\n\n"], new_tokens=40, together=2)
        assert 0 < profile[0] <= 1
