"""Answers and their counters."""

from __future__ import annotations

import pytest

from sglang_dspine.serve.ask import Answer, Answers, Asker
from sglang_dspine.serve.failure import ServeError


def test_accepted_length_leaves_out_the_token_of_the_prefill():
    answers = Answers([Answer([1] * 33, "", 8), Answer([1] * 17, "", 4)], 2.0)
    assert answers.accepted_length == 48 / 12 and answers.tokens_per_second == 25


def test_a_server_without_rounds_has_no_accepted_length():
    assert Answers([Answer([1, 2], "", 0)], 1.0).accepted_length is None


def test_no_server_is_an_error_that_names_the_address():
    with pytest.raises(ServeError, match=r"http://127.0.0.1:9/generate"):
        Asker("http://127.0.0.1:9").ask("x", 1)
