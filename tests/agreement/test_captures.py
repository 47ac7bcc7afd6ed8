"""Captures survive a file, and are refused when they are of another target."""

from dataclasses import replace

import pytest
import torch

from sglang_dspine.agreement.captures import Text, load_captures, save_captures, synthetic
from sglang_dspine.errors import DSpineError
from tests.support.checkpoints import TINY


def test_a_file_gives_back_what_was_saved(tmp_path):
    given = synthetic(TINY)
    save_captures(tmp_path / "some.safetensors", given)
    found = load_captures(tmp_path / "some.safetensors")
    assert found.source == "some.safetensors" and len(found.texts) == len(given.texts)
    for a, b in zip(found.texts, given.texts, strict=True):
        assert torch.equal(a.taps, b.taps) and torch.equal(a.tokens, b.tokens) and a.written == b.written
    assert all(torch.equal(getattr(found, name), getattr(given, name)) for name in ("embed", "head", "mask"))


def test_synthetic_captures_fit_the_drafter_and_claim_no_text():
    given = synthetic(TINY)
    given.check(TINY)
    assert not given.written and max(int(text.tokens.max()) for text in given.texts) < TINY.vocab_size


def test_captures_of_another_width_are_refused_with_both_shapes():
    given = synthetic(TINY)
    with pytest.raises(DSpineError, match=r"text 0: expected taps \[10, 96\], found \[10, 64\].*layers \[0, 1, 2\]"):
        given.check(replace(TINY, target_layer_ids=(0, 1, 2)))
    wide = replace(given, texts=(), head=given.head[:, :5], embed=given.embed[:, :5])
    with pytest.raises(DSpineError, match=r"expected embed and head \[tokens, 32\], mask \[32\]; found \[67, 5\]"):
        wide.check(TINY)
    first = given.texts[0]
    for text, said in (
        (Text(first.taps[1:], first.tokens, 1), r"expected taps \[10, 64\], found \[9, 64\]"),
        (Text(first.taps, first.tokens, 0), r"expected written in \[1, 10\], found 0"),
        (Text(first.taps, first.tokens + 67, 1), r"expected token ids in \[0, 67\)"),
    ):
        with pytest.raises(DSpineError, match=said):
            replace(given, texts=(text,)).check(TINY)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("which", ["text 3: taps", "embed", "head", "mask"])
def test_captures_with_numbers_that_are_not_finite_are_refused(which, value):
    given = synthetic(TINY)
    given.check(TINY)
    broken = given.texts[3].taps if which.startswith("text") else getattr(given, which)
    broken.view(-1)[-1] = value
    with pytest.raises(DSpineError, match=f"{which}: expected finite numbers"):
        given.check(TINY)


@pytest.mark.parametrize("content", [b"", b"no safetensors", None])
def test_another_file_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DSpineError, match="is no file of captures"):
        load_captures(path)
