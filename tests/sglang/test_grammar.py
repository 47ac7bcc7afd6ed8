"""Grammar requests are constrained at every row of a block (report 22), greedy and sampled."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ..support.engine import Request

pytestmark = pytest.mark.report(22)
DEMO = Path(__file__).resolve().parents[2] / "demo"
SPEC = {
    "speculative_algorithm": "DSPINE",
    "speculative_draft_model_path": str(DEMO / "draft"),
    "grammar_backend": "xgrammar",
}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "size": {"type": "integer", "maximum": 999}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
REGEX = r"(def|class) [a-z_]{3,12}\(self\):"
PROMPT = list(b"import json\n\n\ndef load(path):\n    return ")


def requests(**sampling) -> list[Request]:
    limits = {"max_new_tokens": 160, **sampling}  # twelve escaped characters and all the rest take 94
    # JSON allows any amount of white space, of which a model trained on code is fond
    blanks = {str(ord(blank)): -100.0 for blank in " \n\t\r"}
    schema = {"json_schema": json.dumps(SCHEMA), "logit_bias": blanks}
    constrained = [Request(PROMPT, {**limits, **schema}) for _ in range(2)]
    constrained += [Request(PROMPT, {**limits, "regex": REGEX}) for _ in range(2)]
    return [*constrained, Request(PROMPT, limits)]


def text(out) -> str:
    return bytes(i for i in out.output_ids if i < 256).decode()


def check(outputs) -> None:
    for out in outputs[:2]:
        assert out.finish_reason["type"] == "stop", text(out)
        assert set(json.loads(text(out))) == {"name", "size"}
    for out in outputs[2:4]:
        assert re.fullmatch(REGEX, text(out)), text(out)


@pytest.fixture(scope="module", params=[True, False], ids=["overlap off", "overlap on"])
def engine(engines, request):
    extra = {} if request.param else {"mamba_radix_cache_strategy": "extra_buffer"}
    return engines(str(DEMO / "target"), disable_overlap_schedule=request.param, **extra, **SPEC)


def test_a_greedy_grammar_request_emits_what_plain_decode_emits(engines):
    plain = engines(str(DEMO / "target"), grammar_backend="xgrammar").generate(requests(temperature=0))
    dspine = engines(str(DEMO / "target"), **SPEC).generate(requests(temperature=0))
    check(plain)
    assert [o.output_ids for o in dspine] == [o.output_ids for o in plain]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
def test_text_keeps_to_its_grammar(engine, temperature):
    check(engine.generate(requests(temperature=temperature)))
