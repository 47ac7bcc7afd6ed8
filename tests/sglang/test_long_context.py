"""No step of a round but attention costs more behind a longer context: elements that PyTorch touches, counted.

Time would say nothing here; elements and calls do not depend on the machine. Attention itself, and what its backend
lays out before it, are left out: the target's grows with the context, the draft's with its window.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from sglang_dspine.worker import dspine_worker
from sglang_dspine.worker import round as round_module

from ..support import pairs
from ..support.engine import Request
from ..support.prompts import random_prompts

WINDOW = 48
SERVERS = {"whole context": {}, "window of 48": {"speculative_draft_window_size": WINDOW}}


class Touched(TorchDispatchMode):
    """calls and elements (of every tensor that goes in or comes out) of the operations below it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves((args, kwargs, out)) if isinstance(x, torch.Tensor)]
        self.calls += 1
        self.elements += sum(x.numel() for x in tensors)
        return out


def unseen(function):
    @wraps(function)
    def call(*args, **kwargs):
        with _disable_current_modes():
            return function(*args, **kwargs)

    return call


@contextmanager
def counted(engine):
    """(calls, elements) of every decode round while the context lasts."""
    found, right = [], dspine_worker.decode_round

    def decode_round(*given):
        with Touched() as touched:
            result = right(*given)
        found.append((touched.calls, touched.elements))
        return result

    patches = [mock.patch.object(dspine_worker, "decode_round", decode_round)]
    for backend in {type(engine.model_runner.attn_backend), type(engine.draft_worker.draft_model_runner.attn_backend)}:
        for name in ("forward", "init_forward_metadata"):
            patches.append(mock.patch.object(backend, name, unseen(getattr(backend, name))))
    for patch in patches:
        patch.start()
    yield found
    for patch in patches:
        patch.stop()


def rounds_behind(engine, length: int) -> set[tuple[int, int]]:
    """What the rounds behind a prompt of this length cost; each is a width of 8."""
    engine.flush()
    (ids,) = random_prompts((length,), seed=length)
    with counted(engine) as found:
        engine.generate([Request(ids, {"max_new_tokens": 10, "ignore_eos": True})])
    return set(found)


@pytest.fixture(params=SERVERS)
def engine(request, engines):
    return pairs.dense().served(engines, **SERVERS[request.param])


@pytest.mark.full
def test_a_round_behind_900_tokens_touches_what_one_behind_100_does(engine):
    rounds_behind(engine, 50)  # the first round makes buffers
    near, far = rounds_behind(engine, 100), rounds_behind(engine, 900)
    assert near and far
    assert max(calls for calls, _ in far) <= max(calls for calls, _ in near)
    assert max(elements for _, elements in far) <= max(elements for _, elements in near)


@pytest.mark.full
def test_a_step_that_looks_back_over_the_context_is_seen(engines):
    """Planted: one sum over the positions of the context a round."""
    engine = pairs.dense().served(engines)
    right = round_module.prepare_block

    def looking_back(batch, *rest):
        torch.arange(int(batch.seq_lens.max())).sum()
        return right(batch, *rest)

    with mock.patch.object(round_module, "prepare_block", looking_back):
        near, far = rounds_behind(engine, 100), rounds_behind(engine, 900)
    assert max(elements for _, elements in far) > max(elements for _, elements in near) + 700
