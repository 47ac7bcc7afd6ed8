"""Which tokens of recorded text are answers."""

import json

import pytest

from sglang_dspine.acceptance.anchor import anchors_of, bucket_of, check_edges, label
from sglang_dspine.acceptance.sequence import FIRST, Sequence, read_sequences
from sglang_dspine.errors import DSpineError


class Letters:
    """A tokenizer of letters: a message is its role's first letter, its content, a full stop."""

    def __init__(self, forgets: bool = False) -> None:
        self.forgets = forgets  # as templates do that drop the reasoning of earlier answers

    def __call__(self, text: str) -> dict:
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(self, messages, *, add_generation_prompt=False, tokenize, return_dict, **settings):
        parts = []
        for i, message in enumerate(messages):
            content = message["content"]
            if self.forgets and message["role"] == "assistant" and i < len(messages) - 1:
                content = content.upper()
            parts.append(f"{message['role'][0]}{content}.")
        return self("".join(parts) + ("a" if add_generation_prompt else ""))


def read(tmp_path, *lines, forgets=False, longest=1000, **extra):
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return read_sequences([path], Letters(forgets), longest, **extra)


def text_of(sequence: Sequence, span: tuple[int, int]) -> str:
    return "".join(map(chr, sequence.ids[slice(*span)]))


def messages(*contents: str) -> list[dict]:
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


def test_the_answers_of_a_conversation_are_its_spans(tmp_path):
    (found,) = read(tmp_path, {"messages": messages("hello", "yes", "more", "indeed")})
    assert [text_of(found, span) for span in found.spans] == ["yes.", "indeed."]


def test_a_question_at_the_end_is_context_without_an_answer(tmp_path):
    (found,) = read(tmp_path, {"messages": messages("hello", "yes", "more")})
    assert [text_of(found, span) for span in found.spans] == ["yes."] and text_of(found, (0, 99)).endswith("umore.a")


def test_a_template_that_rewrites_earlier_answers_gives_a_sequence_a_turn_of_one_name(tmp_path):
    found = read(tmp_path, {"messages": messages("hello", "yes", "more", "indeed")}, forgets=True)
    assert [[text_of(s, span) for span in s.spans] for s in found] == [["yes."], ["indeed."]]
    assert text_of(found[1], (0, 99)).startswith("uhello.aYES.") and len({s.name for s in found}) == 1


def test_a_line_of_text_is_an_answer_unless_it_is_to_be_continued(tmp_path):
    (found,) = read(tmp_path, {"text": "abcdefghijkl"})
    assert found.spans == ((FIRST, 12),)
    (prompt,) = read(tmp_path, {"text": "abcdefghijkl"}, written=False)
    assert prompt.spans == () and prompt.ids == found.ids


def test_a_file_of_plain_text_is_one_sequence(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("first line\nsecond line\n")
    (found,) = read_sequences([path], Letters(), 15)
    assert found.name == "book.txt" and found.spans == ((FIRST, 15),) and len(found.ids) == 15


def test_what_lies_beyond_the_longest_sequence_is_left_out(tmp_path):
    (found,) = read(tmp_path, {"messages": messages("hello", "yes", "more", "indeed")}, longest=22)
    assert [text_of(found, span) for span in found.spans] == ["yes.", "ind"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DSpineError, match=r"none\.txt"):
        read_sequences([tmp_path / "none.txt"], Letters(), 10)


EDGES = (0, 100, 200)


def test_every_anchor_leaves_a_whole_block_of_its_answer():
    found = anchors_of(Sequence("a", (0,) * 300, ((10, 40), (50, 64), (90, 130))), 16, 99, EDGES)
    assert found == [*range(10, 25), *range(90, 115)]  # the answer of 14 tokens has no room


def test_anchors_are_spread_evenly_in_each_bucket():
    found = anchors_of(Sequence("a", (0,) * 300, ((1, 290),)), 16, 4, EDGES)
    assert found == [13, 38, 62, 87, 112, 137, 162, 187]


def test_contexts_beyond_the_last_bucket_are_left_out():
    assert bucket_of(199, EDGES) == 1 and bucket_of(200, EDGES) is None


def test_buckets_are_named_in_thousands_where_they_are():
    assert label(0, (0, 4096)) == "0-4K" and label(1, EDGES) == "100-200"


@pytest.mark.parametrize("edges", [[], [0], [5, 5], [9, 3], [-1, 4]])
def test_buckets_must_rise(edges):
    with pytest.raises(DSpineError, match="two rising numbers"):
        check_edges(edges)
