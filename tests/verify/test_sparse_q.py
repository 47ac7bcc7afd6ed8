"""Verification keeps q sparse: no tensor of [N, w - 1, V] is made for the proposals."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sglang_dspine.verify.accept import accept_sampled


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor an operation made; views of what was there do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        inputs = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in inputs:
            self.bytes = max(self.bytes, result.untyped_storage().nbytes())
        return result


def inputs(n: int = 4, width: int = 16, vocab: int = 5000, k: int = 16):
    g = torch.Generator().manual_seed(0)
    probs = torch.softmax(torch.randn(n, width, vocab, generator=g), -1)
    candidates = torch.rand(n, width - 1, vocab, generator=g).argsort(-1)[..., :k]
    q = torch.softmax(torch.randn(n, width - 1, k, generator=g), -1)
    block = torch.cat([torch.zeros(n, 1, dtype=torch.int64), candidates[..., 0]], 1)
    return block, probs, candidates, q, torch.rand(n, width - 1, generator=g), torch.rand(n, generator=g)


def test_acceptance_makes_nothing_the_size_of_a_dense_proposal():
    problem = inputs()
    n, _, vocab = problem[1].shape
    with Largest() as largest:
        accept_sampled(*problem)
    assert 0 < largest.bytes <= n * vocab * 8  # one float64 row a request, of which the dense form has w - 1


def test_a_dense_proposal_would_be_seen():
    _, probs, candidates, q, *_ = inputs()
    with Largest() as largest:
        torch.zeros_like(probs[:, 1:]).scatter(-1, candidates, q)
    assert largest.bytes > probs.shape[0] * probs.shape[2] * 8
