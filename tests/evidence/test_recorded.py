"""Conversations from JSONL, and the built-in ones."""

import json
from itertools import pairwise

import pytest

from sglang_dspine.bench.serving.synthetic import synthetic
from sglang_dspine.errors import DSpineError
from sglang_dspine.evidence.recorded import read_recorded

USER, ANSWER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}


def read(tmp_path, *lines):
    path = tmp_path / "turns.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return read_recorded(path)


def test_each_recorded_answer_is_asked_for_again(tmp_path):
    (conversation,) = read(tmp_path, {"messages": [USER, ANSWER, USER, ANSWER, USER]})
    assert [len(turn.messages) for turn in conversation.turns] == [1, 3, 5]
    assert [turn.answer for turn in conversation.turns] == [ANSWER, ANSWER, None]


def test_a_conversation_that_ends_with_an_answer_has_no_turn_after_it(tmp_path):
    (conversation,) = read(tmp_path, {"messages": [USER, ANSWER]})
    assert [turn.messages for turn in conversation.turns] == [[USER]]


def test_lines_of_one_id_are_turns_of_one_conversation_in_order(tmp_path):
    found = read(tmp_path, {"id": 7, "prompt": "a"}, {"id": 8, "text": "b"}, {"id": 7, "input_ids": [1, 2]})
    assert [(c.name, len(c.turns)) for c in found] == [("7", 2), ("8", 1)]
    assert found[0].turns[0].text == "a" and found[0].turns[1].ids == [1, 2]


def test_tools_and_template_settings_reach_the_template(tmp_path):
    line = {"messages": [USER], "tools": [{"type": "function"}], "chat_template_kwargs": {"enable_thinking": True}}
    (conversation,) = read(tmp_path, line | {"temperature": 1.0})
    assert conversation.turns[0].template == {k: line[k] for k in ("tools", "chat_template_kwargs")}


def test_lines_of_openai_batches_are_read(tmp_path):
    (conversation,) = read(tmp_path, {"custom_id": "x", "method": "POST", "body": {"messages": [USER]}})
    assert conversation.turns[0].messages == [USER]


@pytest.mark.parametrize(
    "line", ["{", "3", {"a": 1}, {"prompt": []}, {"prompt": [True]}, {"messages": [ANSWER]}, {"messages": "a"}]
)
def test_a_line_that_is_no_request_is_named(tmp_path, line):
    with pytest.raises(DSpineError, match=r"turns\.jsonl:2"):
        read(tmp_path, {"prompt": "good"}, line)


def test_a_file_without_requests_is_refused(tmp_path):
    with pytest.raises(DSpineError, match="no requests"):
        read(tmp_path, "", "")


def test_the_built_in_agent_shares_its_system_prompt_and_grows_turn_by_turn():
    found = synthetic(conversations=20, turns=3, characters=500)
    assert len({turn.messages[0]["content"] for c in found for turn in c.turns}) == 1
    for conversation in found:
        for before, after in pairwise(conversation.turns):
            assert after.messages[: len(before.messages)] == before.messages
        assert all(len(turn.messages[-1]["content"]) > 400 for turn in conversation.turns)
    assert len({c.turns[0].messages[1]["content"] for c in found}) == 20


def test_the_built_in_agent_is_the_same_every_time():
    assert synthetic(4, 2, 300, seed=3) == synthetic(4, 2, 300, seed=3) != synthetic(4, 2, 300, seed=4)
