"""What a batch asks for is put on the device once, and anew when anything of it changes; the text is tested with real
SGLang (`tests/sglang/test_adjustments.py`)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.verify import penalties as module
from sglang_dspine.verify.penalties import PenaltyTracker

V = 20
NONE = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0, "min_new_tokens": 0}


def request(prompt: int = 5, **sampling) -> SimpleNamespace:
    asked = SimpleNamespace(**NONE | {"stop_token_ids": [3]} | sampling)
    return SimpleNamespace(
        sampling_params=asked, origin_input_ids=[1] * prompt, eos_token_ids={2}, tokenizer=None, output_ids=[]
    )


def batch(*reqs, emitted: int = 0) -> SimpleNamespace:
    lengths = torch.tensor([len(req.origin_input_ids) + emitted for req in reqs])
    return SimpleNamespace(reqs=list(reqs), seq_lens=lengths, req_pool_indices=torch.arange(len(reqs)))


@pytest.fixture
def uploads(monkeypatch):
    """How often something went to the device."""
    made, upload = [], module._upload
    monkeypatch.setattr(module, "_upload", lambda *given: made.append(given) or upload(*given))
    return made


@pytest.fixture
def tracker():
    return PenaltyTracker(4, V, "cpu")


def test_nothing_is_kept_while_nobody_penalises(tracker, uploads):
    assert tracker.of(batch(request(), request())) is None and tracker.counts is None and not uploads


def test_rounds_of_the_same_batch_send_nothing_again(tracker, uploads):
    reqs = request(presence_penalty=1.0), request()
    first = tracker.of(batch(*reqs))
    sent = len(uploads)
    later = tracker.of(batch(*reqs, emitted=7))
    assert sent > 0 and len(uploads) == sent and later.presence is first.presence
    assert later.presence.tolist() == [[1.0], [0.0]] and later.stops is None


def test_another_request_order_or_prompt_is_another_batch(tracker):
    a, b, c = request(presence_penalty=1.0), request(presence_penalty=2.0), request(presence_penalty=3.0)
    found = [tracker.of(batch(*reqs)).presence.flatten().tolist() for reqs in ((a, b), (b, a), (b, c), (b,))]
    assert found == [[1.0, 2.0], [2.0, 1.0], [2.0, 3.0], [2.0]]
    b.origin_input_ids.append(9)
    assert tracker.of(batch(b, emitted=2)).missing.tolist() == [-3]


def test_a_minimum_length_forbids_the_stop_ids_of_its_own_request_until_it_is_reached(tracker):
    reqs = request(min_new_tokens=6), request(presence_penalty=1.0), request(min_new_tokens=2, stop_token_ids=None)
    found = tracker.of(batch(*reqs, emitted=3))
    assert found.missing.tolist() == [2, -4, -2]
    barred = [row.isinf().nonzero().flatten().tolist() for row in found.stops]
    assert barred == [[2, 3], [], [2]]


def test_a_minimum_length_without_any_stop_id_forbids_nothing(tracker):
    req = request(min_new_tokens=6, stop_token_ids=None)
    req.eos_token_ids = None
    assert not tracker.of(batch(req)).stops.any()
