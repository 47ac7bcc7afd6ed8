"""Errors say what was found, what was expected and what to do."""

from sglang_dspine.errors import CheckpointError, DSpineError


def test_a_message_has_place_problem_expectation_finding_and_advice():
    error = CheckpointError("a.safetensors", "tensor x is short", expected=[2], found=[1], hint="get it again")
    assert str(error) == "a.safetensors: tensor x is short; expected [2]; found [1]; get it again"
    assert isinstance(error, DSpineError) and isinstance(error, ValueError)


def test_one_problem_stays_itself_and_several_are_listed():
    first, second = CheckpointError("a", "one"), CheckpointError("b", "two")
    assert CheckpointError.together("folder", [first]) is first
    both = CheckpointError.together("folder", [first, second])
    assert str(both) == "folder: 2 problems\n  1. a: one\n  2. b: two"
    assert both.problems == (first, second) and first.problems == (first,)


def test_a_flood_of_problems_is_cut_in_the_message_and_kept_in_the_error():
    flood = [CheckpointError("a", f"problem {number}") for number in range(300)]
    error = CheckpointError.together("folder", flood)
    assert len(str(error).splitlines()) == 22 and "300 problems" in str(error) and "and 280 more" in str(error)
    assert error.problems == tuple(flood)
