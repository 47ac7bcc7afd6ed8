"""Everything that bends the target's logits bends every row of a verify block as plain decode would (E1, report 20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.engine import Request

pytestmark = pytest.mark.report(20)
DEMO = Path(__file__).resolve().parents[2] / "demo"
SPEC = {"speculative_algorithm": "DSPINE", "speculative_draft_model_path": str(DEMO / "draft")}
SOURCE = Path(__file__).read_bytes()
STEPS = 48
CASES = {
    "plain": {},
    "frequency": {"frequency_penalty": 0.7},
    "presence": {"presence_penalty": 1.1},
    "repetition": {"repetition_penalty": 1.3},
    "all penalties": {"frequency_penalty": 0.4, "presence_penalty": 0.3, "repetition_penalty": 1.1},
    "negative penalties": {"frequency_penalty": -0.3, "presence_penalty": -0.2},
    "minimum length": {"min_new_tokens": 30, "stop_token_ids": [32, 10], "ignore_eos": False},
    "bias": {"logit_bias": {"101": -100.0, "32": 2.5}},
    "bias and penalty": {"logit_bias": {"10": 3.0}, "frequency_penalty": 0.5},
}


def requests() -> list[Request]:
    found = []
    for i, extra in enumerate(CASES.values()):
        sampling = {"max_new_tokens": STEPS, "ignore_eos": True, **extra}
        found.append(Request(list(SOURCE[40 * i : 40 * i + 90 + i]), sampling))
    return found


@pytest.fixture(scope="module")
def texts(engines):
    """Alone and batched, by plain SGLang and by DSPINE."""
    found = {}
    for name, settings in (("plain", {}), ("dspine", SPEC)):
        engine = engines(str(DEMO / "target"), **settings)
        alone = [engine.generate([request])[0] for request in requests()]
        batched = engine.generate(requests())
        found[name] = ([o.output_ids for o in alone], [o.output_ids for o in batched])
        found[f"{name} accepted"] = [max(o.accept_lengths, default=0) for o in alone]
    return found


@pytest.mark.parametrize("case", range(len(CASES)), ids=list(CASES))
def test_a_request_alone_emits_plain_decodes_text(texts, case):
    assert texts["dspine"][0][case] == texts["plain"][0][case]


@pytest.mark.parametrize("case", range(len(CASES)), ids=list(CASES))
def test_a_request_among_others_emits_plain_decodes_text(texts, case):
    assert texts["dspine"][1][case] == texts["plain"][0][case]


def test_blocks_were_accepted_under_every_adjustment(texts):
    assert min(texts["dspine accepted"]) > 2
    assert all(a != texts["plain"][0][0] for a in texts["plain"][0][1:]), "each case has a text of its own"
