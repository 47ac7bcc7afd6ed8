"""Each captured shape is named, and only the batch sizes of its width are captured (reports 18 and 30)."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from sglang.srt import runtime_context

from sglang_dspine.worker import graphs
from sglang_dspine.worker.graphs import Capture, capture_with, named_runner_class, sizes_to_capture


class StandIn:
    """Captures every size of the configuration, largest first, as SGLang's runner does."""

    def __init__(self, model_runner, **settings):
        self.model_runner, self.settings, self.captured = model_runner, settings, []
        for size in reversed(model_runner.config.decode.bs):
            self.capture_one_shape(size, None)

    def capture_one_shape(self, size, forward):
        self.captured.append((size, self.model_runner.model.width))


@pytest.fixture
def runner(monkeypatch):
    def only(sizes):
        from contextlib import nullcontext

        made.config.decode.bs = list(sizes)
        return nullcontext()

    made = SimpleNamespace(
        model=SimpleNamespace(width=16), config=SimpleNamespace(decode=SimpleNamespace(bs=[1, 2, 4])),
        _decode_cuda_graph_runner_cls=lambda: StandIn,
    )  # fmt: skip
    monkeypatch.setattr(graphs, "only_sizes", only)
    return made


@pytest.mark.report(18)
def test_every_shape_is_named_and_the_draft_model_has_its_width(runner, caplog):
    runner.dspine_capture = Capture("draft", 8, (3, 7))
    with caplog.at_level(logging.INFO):
        made = named_runner_class(StandIn)(runner, attn_backend="b")
    assert made.captured == [(7, 8), (3, 8)]
    assert made.settings == {"speculative_num_draft_tokens": 8, "attn_backend": "b"}
    assert "the draft graph of batch 7, width 8" in caplog.text


def test_the_targets_model_is_left_alone(runner):
    runner.dspine_capture = Capture("target", 8, (3,))
    assert named_runner_class(StandIn)(runner).captured == [(3, 16)]


def test_a_model_runner_is_taught_once(runner):
    vars(runner).pop("_decode_cuda_graph_runner_cls")
    kind = type("Runner", (), {"_decode_cuda_graph_runner_cls": lambda self: StandIn})
    made = kind()
    capture_with(made, Capture("target", 8, (3,)))
    first = made._decode_cuda_graph_runner_cls()
    capture_with(made, Capture("target", 4, (1,)))
    assert made._decode_cuda_graph_runner_cls() is first and issubclass(first, StandIn)
    assert made.dspine_capture.width == 4


def test_sizes_beyond_the_most_running_requests_are_cut(monkeypatch):
    graph = SimpleNamespace(cuda_graph_config=SimpleNamespace(decode=SimpleNamespace(bs=[1, 2, 8, 64, 128])))
    monkeypatch.setattr(runtime_context, "get_exec", lambda: SimpleNamespace(graph=graph))
    pool = SimpleNamespace(req_to_token_pool=SimpleNamespace(size=48))
    assert sizes_to_capture(pool) == [1, 2, 8, 48]
