"""What the registered algorithm answers to the questions SGLang asks of it."""

from __future__ import annotations

import pytest
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from sglang_dspine.algorithm.registration import worker_class
from sglang_dspine.algorithm.spec import DSpineSpecAlgo

ANSWERS = {
    "is_dflash": True, "is_dflash_family": True, "is_dspark": False, "is_eagle": False, "is_none": False,
    "is_speculative": True, "supports_target_verify_for_draft": True, "supports_prefill_shared_read_done": True,
    "supports_mixed_chunk": True, "supports_grammar_overlap": True, "supports_ragged_verify": False,
    "has_draft_kv": True, "carries_draft_hidden_states": False, "need_topk": False, "get_platform_worker_cls": None,
}  # fmt: skip


@pytest.fixture
def algorithm():
    return DSpineSpecAlgo("DSPINE", worker_class, supports_overlap=True)


@pytest.mark.parametrize("question", ANSWERS)
def test_each_question_has_its_answer(algorithm, question):
    assert getattr(algorithm, question)() is ANSWERS[question]


def test_whatever_sglang_may_ask_of_a_built_in_algorithm_can_be_asked_of_this_one(algorithm):
    """A method the base class lacks kills the scheduler at its first call (create_future_map did)."""
    asked = [name for name, value in vars(SpeculativeAlgorithm).items() if callable(value) and not name.startswith("_")]
    assert len(asked) > 20
    lacking = {name for name in asked if not hasattr(algorithm, name)} - {"register", "from_string"}
    assert lacking == set()


def test_flags_are_resolved_through_the_algorithm(algorithm, monkeypatch):
    from sglang_dspine.algorithm import flags

    seen = []
    monkeypatch.setattr(flags, "resolve", seen.append)
    algorithm.handle_server_args("arguments")
    assert seen == ["arguments"]
