"""A request ends exactly where plain decode would end it, also in the middle of an accepted run, and usage says so."""

from __future__ import annotations

from dataclasses import dataclass
from unittest import mock

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.sent import sent_usage

STEPS = 48


@dataclass
class Text:
    """A greedy text and where its accepted runs lie: run (a, b) is output[a:b]."""

    prompt: list[int]
    output: list[int]
    runs: list[tuple[int, int]]

    def inside(self) -> list[int]:
        """Places in the output that end no run: a stop there falls inside one."""
        return [at for a, b in self.runs for at in range(a, b - 1) if at + 1 < len(self.output)]


@pytest.fixture(scope="module")
def server(engines):
    return pairs.demo().served(engines, **EXTRA_BUFFER)


@pytest.fixture(scope="module")
def texts(server) -> list[Text]:
    found = []
    prompts = held_out_code(2, 150)
    for ids, out in zip(prompts, server.generate([_request(ids) for ids in prompts]), strict=True):
        at, runs = 1, []  # the first token is the prefill's
        for length in out.accept_lengths:
            runs.append((at, at + length))
            at += length
        found.append(Text(ids, out.output_ids, runs))
    assert sum(len(text.inside()) for text in found) > STEPS
    return found


def _request(ids, **sampling) -> Request:
    return Request(ids, {"max_new_tokens": STEPS, "ignore_eos": True, **sampling})


@dataclass
class Case:
    """A request with `sampling` must emit the first `length` tokens of `text` and say `reason`."""

    text: Text
    sampling: dict
    length: int
    reason: dict


def check(engine, *cases: Case) -> None:
    """All at once; usage must be exact, and the pools as they were."""
    before = engine.pools
    with sent_usage(engine) as usage:
        outputs = engine.generate([_request(case.text.prompt, **case.sampling) for case in cases])
    for case, out in zip(cases, outputs, strict=True):
        assert out.output_ids == case.text.output[: case.length]
        assert {k: out.finish_reason[k] for k in case.reason} == case.reason
        told = usage[out.rid]
        assert (told.prompt_tokens, told.completion_tokens) == (len(case.text.prompt), case.length)
        assert told.spec_verify_ct == len(out.accept_lengths)
        assert told.spec_num_correct_drafts == sum(out.accept_lengths) - len(out.accept_lengths)
        assert sum(out.accept_lengths[:-1]) + 1 <= case.length <= sum(out.accept_lengths) + 1
    engine.flush()
    assert engine.pools == before


def first_inside(text: Text) -> list[int]:
    """Places inside a run whose token occurs there for the first time."""
    return [at for at in text.inside() if text.output[at] not in text.output[:at]]


@pytest.fixture
def idle(server):
    server.flush()
    return server


def test_the_length_limit_may_fall_anywhere_in_a_run(idle, texts):
    a, b = max(texts[0].runs, key=lambda run: run[1] - run[0])
    lengths = range(a + 1, min(b, STEPS) + 1)
    check(idle, *(Case(texts[0], {"max_new_tokens": n}, n, {"type": "length", "length": n}) for n in lengths))


def test_a_stop_id_inside_a_run_is_the_last_token(idle, texts):
    cases = []
    for text in texts:
        for at in first_inside(text)[-2:]:
            sampling = {"stop_token_ids": [text.output[at]], "ignore_eos": False}
            cases.append(Case(text, sampling, at + 1, {"type": "stop", "matched": text.output[at]}))
    check(idle, *cases)


def test_the_end_token_inside_a_run_is_the_last_token(idle, texts):
    text = texts[1]
    at = first_inside(text)[-1]
    token = text.output[at]
    heeded = Case(text, {"ignore_eos": False}, at + 1, {"type": "stop", "matched": token})
    ignored = Case(text, {"ignore_eos": True}, STEPS, {"type": "length"})
    with mock.patch.object(idle.scheduler.model_config, "hf_eos_token_id", {token}):
        check(idle, heeded, ignored)


def test_a_stop_string_inside_a_run_ends_the_text(idle, texts):
    cases = []
    for text in texts:
        at = text.inside()[-1]
        string = bytes(text.output[at - 3 : at + 1]).decode()
        length = bytes(text.output).find(string.encode()) + len(string)
        cases.append(Case(text, {"stop": [string]}, length, {"type": "stop", "matched": string}))
    check(idle, *cases)


def test_of_two_ends_in_one_run_the_first_counts(idle, texts):
    text, at, end = next(
        (text, at, b - 1)
        for text in texts
        for a, b in text.runs
        for at in range(a, min(b, STEPS) - 1)
        if text.output[b - 1] not in text.output[: b - 1] and b <= STEPS
    )
    stop = {"stop_token_ids": [text.output[end]], "ignore_eos": False}
    check(
        idle,
        Case(text, {**stop, "max_new_tokens": at + 1}, at + 1, {"type": "length", "length": at + 1}),
        Case(text, {**stop, "max_new_tokens": end + 1}, end + 1, {"type": "stop", "matched": text.output[end]}),
    )


def test_a_stopped_request_leaves_nothing_behind_its_stop_in_the_prefix_cache(idle, texts):
    """The run's tokens after the stop were computed, but no client saw them: they must not come back as a prefix."""
    text = texts[0]
    at = first_inside(text)[-1]
    (out,) = idle.generate([_request(text.prompt, stop_token_ids=[text.output[at]], ignore_eos=False)])
    assert len(out.req.output_ids) > len(out.output_ids), "the run went past the stop"
    seen = len(text.prompt) + at + 1
    (again,) = idle.generate([_request([*text.prompt, *text.output], max_new_tokens=4)])
    assert again.cached_tokens <= seen


def test_a_request_of_one_token_takes_no_round(idle, texts):
    check(idle, Case(texts[1], {"max_new_tokens": 1}, 1, {"type": "length", "length": 1}))
