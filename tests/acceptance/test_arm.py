"""What the words of an arm say, and which drafts are made for them."""

import pytest

from sglang_dspine.acceptance.arm import parse_arm, parse_arms
from sglang_dspine.acceptance.draft import jobs_of
from sglang_dspine.errors import DSpineError
from tests.support.models import dflash_drafter, dspine_drafter


def test_settings_are_read():
    arm = parse_arm(f"a {dspine_drafter()} width=4 window=64 bridge=last fp8")
    assert (arm.name, arm.width, arm.window, arm.bridge, arm.fp8) == ("a", 4, 64, "last", True)


@pytest.mark.parametrize("words", ["width=1", "width=x", "bridge=half", "fp4", "window="])
def test_settings_that_mean_nothing_are_refused(words):
    with pytest.raises(DSpineError, match="expected width=N"):
        parse_arm(f"a {dspine_drafter()} {words}")


@pytest.mark.parametrize("words", ["a", "", "a=b /x", "a width=4"])
def test_an_arm_has_a_name_and_a_folder(words):
    with pytest.raises(DSpineError, match="a name and a drafter's folder"):
        parse_arm(words)


def test_a_folder_without_a_drafter_is_refused(tmp_path):
    with pytest.raises(DSpineError, match=r"holds no config\.json"):
        parse_arm(f"a {tmp_path}")


def test_names_are_used_once():
    with pytest.raises(DSpineError, match="a given twice"):
        parse_arms([f"a {dspine_drafter()}", f"a {dspine_drafter()} width=4"])


def test_arms_that_differ_in_width_share_a_draft_where_that_is_exact():
    texts = [f"{name} {{}}{words}" for name, words in (("a", ""), ("b", " width=4"), ("c", " window=9"))]
    causal = jobs_of(parse_arms([text.format(dspine_drafter()) for text in texts]))
    assert [[arm.name for arm in served] for served in causal.values()] == [["a", "b"], ["c"]]
    assert [job.width for job in causal] == [8, 8]
    both_ways = jobs_of(parse_arms([f"a {dflash_drafter()}", f"b {dflash_drafter()} width=3"]))
    assert [(job.width, [arm.name for arm in served]) for job, served in both_ways.items()] == [(4, ["a"]), (3, ["b"])]
