"""The command of a planned server."""

from __future__ import annotations

import pytest

from sglang_dspine.serve import native
from sglang_dspine.serve.profile import NO_OVERLAP
from sglang_dspine.serve.settings import Settings
from tests.support.pairs import DEMO


@pytest.mark.parametrize(
    ("extra", "overlap"),
    [
        ([], False),
        (["--mamba-radix-cache-strategy", "extra_buffer"], False),
        (["--mamba-radix-cache-strategy", "extra_buffer_lazy"], True),
        (["--mamba-radix-cache-strategy=extra_buffer_lazy"], True),
    ],
)
def test_a_cpu_overlaps_where_the_prefix_cache_asked_for_needs_it(monkeypatch, extra, overlap):
    monkeypatch.setattr(native, "find_gpu", lambda: None)
    settings = Settings(model=str(DEMO / "target"), draft=str(DEMO / "draft"))
    words = native.plan(settings, extra).command.words
    assert (NO_OVERLAP.name not in words) is overlap and words[-len(extra) :] == (extra or words)
