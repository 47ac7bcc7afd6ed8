"""A width's own backends and graphs: made under its width, for its batch sizes, and not with the last of the memory."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
from sglang.srt import runtime_context
from sglang.srt.speculative import spec_utils

from sglang_dspine.errors import DSpineError
from sglang_dspine.worker import stages
from sglang_dspine.worker.graphs import Capture
from sglang_dspine.worker.stages import Half, build_stage


class GraphRunner:
    """What SGLang captures with: here it only notes what it was told."""

    def __init__(self, runner, **settings):
        self.dspine_capture, self.settings, self.max_bs = runner.dspine_capture, settings, 8


class Runner:
    """A model runner whose backends remember the width they were made under."""

    prefill_attention_backend_str, decode_attention_backend_str = "prefill's", "decode's"

    def __init__(self, spec):
        self.spec, self.init_new_workspace, self.bound = spec, "as it was", []
        self.kv_index_translator = SimpleNamespace(bind_and_verify_backends=self.bound.extend)
        self._decode_cuda_graph_runner_cls = lambda: GraphRunner

    def _get_attention_backend(self, init_new_workspace):
        self.init_new_workspace = init_new_workspace
        return SimpleNamespace(width=self.spec.width, new_workspace=init_new_workspace)


@pytest.fixture
def worker(monkeypatch):
    spec = SimpleNamespace(width=16)

    @contextmanager
    def override(speculative_num_draft_tokens):
        spec.width = speculative_num_draft_tokens
        yield
        spec.width = 16

    spec.override = override
    monkeypatch.setattr(runtime_context, "get_spec", lambda: spec)
    monkeypatch.setattr(spec_utils, "draft_pp_context", nullcontext)
    monkeypatch.setattr(spec_utils, "draft_tp_context", lambda layout: nullcontext())
    return SimpleNamespace(
        model_runner=Runner(spec), draft_model_runner=Runner(spec), draft_parallel_layout=None, device="cpu"
    )


def test_both_halves_are_made_under_the_width_and_bound_and_the_target_alone_gets_a_workspace(worker):
    stage = build_stage(worker, 8, (), (False, False))
    target, draft = worker.model_runner, worker.draft_model_runner
    assert stage.width == stage.target.backend.width == stage.draft.backend.width == 8
    assert target.bound == [stage.target.backend] and draft.bound == [stage.draft.backend]
    assert stage.target.backend.new_workspace and not stage.draft.backend.new_workspace
    assert target.init_new_workspace == draft.init_new_workspace == "as it was"
    assert stage.draft.backend.prefill_attention_backend_str == "prefill's"
    assert stage.draft.backend.decode_attention_backend_str == "decode's"


def test_where_graphs_are_off_none_are_captured(worker):
    stage = build_stage(worker, 8, (), (False, False))
    assert stage.target.graphs is None and stage.target.largest() == 0


def test_plain_decode_has_no_half_of_the_draft(worker):
    assert build_stage(worker, 1, (), (False, False)).draft is None
    assert not worker.draft_model_runner.bound


def test_graphs_are_captured_for_the_widths_own_batch_sizes_on_its_own_backend(worker, monkeypatch):
    monkeypatch.setattr(stages, "free_gb", lambda worker: 1.0)
    stage = build_stage(worker, 8, (1, 3), (True, True))
    for half, role in ((stage.target, "target"), (stage.draft, "draft")):
        assert half.graphs.dspine_capture == Capture(role, 8, (1, 3))
        assert half.graphs.settings == {"attn_backend": half.backend, "speculative_num_draft_tokens": 8}
        assert half.largest() == 8


def test_each_half_is_captured_only_where_sglang_captured_its_own(worker, monkeypatch):
    monkeypatch.setattr(stages, "free_gb", lambda worker: 1.0)
    stage = build_stage(worker, 8, (1, 3), (True, False))
    assert stage.target.graphs is not None and stage.draft.graphs is None


def test_a_capture_that_leaves_too_little_memory_is_refused_with_the_width_and_what_to_give_up(worker, monkeypatch):
    monkeypatch.setattr(stages, "free_gb", lambda worker: 0.99)
    with pytest.raises(DSpineError, match=r"0\.99 GB .*after capturing width 8, .*DSPINE_WIDTHS"):
        build_stage(worker, 8, (1, 3), (False, True))
    assert build_stage(worker, 8, (), (False, False)).width == 8, "without graphs there is nothing to give up"


def test_off_a_gpu_no_memory_is_asked_for(worker):
    assert stages.free_gb(worker) == 0.0


def test_a_half_puts_its_backend_and_graphs_on_a_runner():
    runner = SimpleNamespace(attn_backend=None, decode_cuda_graph_runner=None)
    Half("backend", "graphs").put(runner)
    assert Half.of(runner) == Half("backend", "graphs")
