"""Draft attention backend by compute capability (report 28)."""

import pytest

from sglang_dspine.algorithm.backends import draft_attention_backend

pytestmark = pytest.mark.report(28)


@pytest.mark.parametrize(
    ("capability", "backend"),
    [((9, 0), "fa3"), ((10, 0), "fa4"), ((12, 0), "fa4"), ((12, 1), "fa4"), ((8, 0), "triton"), ((8, 9), "triton"),
     ((7, 5), "triton"), ((13, 0), "triton"), (None, "intel_amx")],
)  # fmt: skip
def test_each_card_gets_its_backend_with_a_reason(capability, backend):
    choice = draft_attention_backend(capability)
    assert choice.backend == backend and len(choice.reason) > 10
