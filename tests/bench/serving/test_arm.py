"""What the words of an arm say."""

import pytest

from sglang_dspine.bench.serving.arm import parse_arm, parse_arms
from sglang_dspine.errors import DSpineError


def test_a_name_alone_does_not_speculate():
    arm = parse_arm("plain")
    assert arm.algorithm is None and arm.arguments == [] and arm.environment == {}


def test_drafter_environment_and_flags_are_kept_apart():
    arm = parse_arm("narrow DSPINE=/a/draft POLICY=table=x --speculative-num-draft-tokens 8 --page-size=16")
    assert (arm.name, arm.algorithm, arm.draft) == ("narrow", "DSPINE", "/a/draft")
    assert arm.environment == {"POLICY": "table=x"}
    assert arm.arguments == [
        "--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", "/a/draft",
        "--speculative-num-draft-tokens", "8", "--page-size=16",
    ]  # fmt: skip


def test_paths_with_spaces_are_quoted_as_in_a_shell():
    assert parse_arm("a DFLASH='/my models/draft'").draft == "/my models/draft"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("DSPINE=/a", "expected a name first"),
        ("", "expected a name first"),
        ("a b", "expected NAME=VALUE"),
        ("a DSPINE=", "expected NAME=VALUE"),
        ("a DSPINE=/x DFLASH=/y", "one drafter"),
        ("a url=http://x --flag", "runs already"),
    ],
)
def test_words_that_say_nothing_or_two_things_are_refused(words, says):
    with pytest.raises(DSpineError, match=says):
        parse_arm(words)


def test_two_arms_of_one_name_are_refused():
    with pytest.raises(DSpineError, match="plain given twice"):
        parse_arms(["plain", "plain --page-size 16"])
