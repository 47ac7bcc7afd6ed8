"""A returned log-probability is that of the target row which produced the token (report 23)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.engine import Request

pytestmark = pytest.mark.report(23)
DEMO = Path(__file__).resolve().parents[2] / "demo"
SPEC = {"speculative_algorithm": "DSPINE", "speculative_draft_model_path": str(DEMO / "draft")}
SOURCE = Path(__file__).read_bytes()
SETTINGS = [{}, {"frequency_penalty": 0.6}, {"logit_bias": {"32": 1.5}}]


def requests() -> list[Request]:
    return [
        Request(list(SOURCE[60 * i : 60 * i + 80]), {"max_new_tokens": 40, "ignore_eos": True, **extra}, logprobs=5)
        for i, extra in enumerate(SETTINGS)
    ]


@pytest.fixture(scope="module")
def outputs(engines):
    plain = engines(str(DEMO / "target")).generate(requests())
    dspine = engines(str(DEMO / "target"), **SPEC).generate(requests())
    return plain, dspine


def test_tokens_and_their_logprobs_are_plain_decodes(outputs):
    plain, dspine = outputs
    assert max(max(o.accept_lengths) for o in dspine) > 3, "several rows of one block are compared"
    for a, b in zip(plain, dspine, strict=True):
        assert a.output_ids == b.output_ids
        count = len(a.output_ids)  # a round may accept beyond the limit; the client gets neither token nor logprob
        assert a.logprobs == pytest.approx(b.logprobs[:count], abs=1e-4)


def test_top_logprobs_name_the_same_tokens(outputs):
    for a, b in zip(*outputs, strict=True):
        for mine, theirs in zip(a.top_logprobs, b.top_logprobs[: len(a.output_ids)], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)
