"""Prompt files."""

from __future__ import annotations

import pytest

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.prompts import read_prompts, to_ids


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_text_files_hold_one_prompt_a_line(tmp_path):
    assert read_prompts(write(tmp_path, "p.txt", 'one\n\n{"text": "two"}\n')) == ["one", '{"text": "two"}']


def test_jsonl_takes_strings_ids_and_objects(tmp_path):
    lines = '"a"\n[1, 2]\n{"text": "b"}\n{"prompt": "c"}\n{"input_ids": [3], "text": "d"}\n'
    assert read_prompts(write(tmp_path, "p.jsonl", lines)) == ["a", [1, 2], "b", "c", [3]]


@pytest.mark.parametrize("line", ["{", '{"messages": []}', "[1, 2.5]", "[true]", "3"])
def test_a_bad_line_is_named(tmp_path, line):
    with pytest.raises(DSpineError, match=r"p\.jsonl:2: .*(expected|not JSON)"):
        read_prompts(write(tmp_path, "p.jsonl", f'"fine"\n{line}\n'))


def test_no_prompts_are_refused(tmp_path):
    with pytest.raises(DSpineError, match="no prompts"):
        read_prompts(write(tmp_path, "p.txt", "\n \n"))


def test_a_prompt_without_tokens_is_refused():
    class Silent:
        def map(self, job, items):
            return [job(i) for i in items]

        def tokenize(self, text):
            return []

    with pytest.raises(DSpineError, match="at least one"):
        to_ids(["x"], Silent())
