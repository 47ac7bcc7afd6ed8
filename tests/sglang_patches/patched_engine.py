"""Runs where the patched copy is imported in SGLang's place; `test_served.py` sees to that."""

from __future__ import annotations

import pytest
import sglang

from . import served
from .overlay import hooks


def test_the_patched_copy_serves_the_targets_text(engines):
    from sglang.srt.layers.attention.hybrid_linear_attn_backend import HybridLinearAttnBackend

    assert hasattr(HybridLinearAttnBackend, "_commit_gdn_replayssm"), sglang.__file__
    with served.plain_fold():
        served.check(engines)
        for name in served.ELSEWHERE:
            served.check_elsewhere(engines, name)


def test_the_hooks_refuse_the_patched_copy():
    with pytest.raises(RuntimeError, match="uninstall this hook"):
        hooks().register()
