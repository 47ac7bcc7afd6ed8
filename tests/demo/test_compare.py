"""What passes as equal text, and what does not."""

from demo.compare import compare, count_differing, judge_length
from sglang_dspine.serve.ask import Answer


def answer(ids: list[int]) -> Answer:
    return Answer(ids, "", 4)


TEXT = list(range(100))


def test_equal_texts_of_enough_tokens_pass():
    found = compare([(answer(TEXT), answer(TEXT))] * 2)
    assert found.line == "0 of 200 differ from plain decode" and found.problem is None


def test_one_other_token_fails():
    found = compare([(answer(TEXT), answer(TEXT)), (answer([*TEXT[:-1], 0]), answer(TEXT))])
    assert found.problem == "1 of 200 differ from plain decode; expected 0"


def test_a_text_that_ends_early_differs_in_all_it_lacks():
    assert count_differing([1, 2], [1, 2, 3, 4]) == count_differing([1, 2, 3, 4], [1, 2]) == 2


def test_too_few_tokens_prove_nothing():
    found = compare([(answer(TEXT), answer(TEXT))])
    assert found.problem == "only 100 tokens could be compared; expected at least 200"


def test_the_accepted_length_must_reach_three():
    assert judge_length(3.0, 300, 100).problem is None
    assert "2.99; expected at least 3.0" in str(judge_length(2.99, 299, 100).problem)
    assert "does not speculate" in str(judge_length(None, 0, 0).problem)
