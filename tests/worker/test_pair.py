"""A drafter of another target is refused before it is loaded."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from sglang.srt import runtime_context

from sglang_dspine.errors import CheckpointError
from sglang_dspine.worker.pair import check_pair

from ..support.checkpoints import TINY, write_checkpoint

TARGET = {
    "hidden_size": TINY.hidden_size, "vocab_size": TINY.vocab_size, "num_hidden_layers": 4, "context_len": 256,
}  # fmt: skip


@pytest.fixture
def check(tmp_path, monkeypatch):
    write_checkpoint(tmp_path, TINY)
    spec = SimpleNamespace(speculative_draft_model_path=str(tmp_path))
    monkeypatch.setattr(runtime_context, "get_spec", lambda: spec)
    return lambda **changes: check_pair(SimpleNamespace(**{**TARGET, **changes}))


def test_its_own_target_is_accepted_without_a_word(check, caplog):
    with caplog.at_level(logging.WARNING):
        check()
    assert not caplog.records


@pytest.mark.report(10)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": 64}, "hidden_size"),
        ({"vocab_size": 68}, "vocab_size"),
        ({"num_hidden_layers": 2}, "target_layer_ids"),
    ],
)
def test_another_target_is_refused_with_what_differs(check, changes, said):
    with pytest.raises(CheckpointError, match=said):
        check(**changes)


@pytest.mark.report(33)
def test_a_context_beyond_the_drafts_rope_is_told_with_the_first_position_outside(check, caplog):
    with caplog.at_level(logging.WARNING):
        check(context_len=1000)
    assert "from position 256 on" in caplog.text
