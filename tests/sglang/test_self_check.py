"""The start-up self-check on a served FP8 draft: sound, and with every planted fault refused (report 7)."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.errors import DSpineError
from sglang_dspine.model.self_check import Findings
from sglang_dspine.worker.self_check import self_check

from ..support import pairs

pytestmark = pytest.mark.report(7)
FP8 = {"dtype": "bfloat16", "speculative_draft_model_quantization": "fp8"}


@pytest.fixture(scope="module", autouse=True)
def turned_on():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSPINE_SELF_CHECK", "1")
        yield


@pytest.fixture(scope="module")
def worker(engines, turned_on):
    return pairs.demo().served(engines, **FP8).draft_worker


@pytest.fixture
def kept(worker):
    """Every tensor of the draft as it was, afterwards."""
    model, stacked = worker.draft_model, worker._fused_kv_helper.project
    tensors = [*model.state_dict().values(), *stacked.state_dict().values()]
    before = [tensor.clone() for tensor in tensors]
    yield worker
    for tensor, old in zip(tensors, before, strict=True):
        tensor.copy_(old)


def test_it_ran_at_start_and_an_fp8_draft_passes(worker):
    found = worker.self_check
    assert isinstance(found, Findings) and found.rows == 4 * 15
    assert found.cosine > 0.99 and 0.02 < found.linear_error < 0.06 and found.top1 > 0.85


def test_online_updates_of_the_draft_are_refused_and_those_of_the_target_are_not(worker):
    """Graphs hold tables made from the draft's weights; the target's own are what the text comes from."""
    from sglang.srt.model_executor.model_runner_components import weight_updater

    reason = weight_updater._unsupported_derived_weight_cache_error
    assert "restart for another drafter" in reason(worker.draft_model)
    assert reason(worker.target_worker.model_runner.model) is None


def test_it_repeats_itself_and_leaves_the_request_table_alone(worker):
    table = worker.model_runner.req_to_token_pool.req_to_token
    before = table.clone()
    assert self_check(worker) == worker.self_check
    assert torch.equal(table, before)


def scale_of(name):
    def forget(worker):
        worker.draft_model.get_submodule(name).weight_scale.fill_(1.0)

    return forget


def swapped_k_and_v(worker):
    a = worker.draft_model.layers[1].self_attn
    scale = a.qkv_proj.weight_scale.view(-1)
    k, v = slice(a.q_size, a.q_size + a.kv_size), slice(a.q_size + a.kv_size, None)
    scale[k], scale[v] = scale[v].clone(), scale[k].clone()
    columns = a.qkv_proj.weight.view(torch.uint8)
    columns[:, k], columns[:, v] = columns[:, v].clone(), columns[:, k].clone()


def reversed_scales(worker):
    scale = worker.draft_model.layers[0].mlp.down_proj.weight_scale
    scale.copy_(scale.flip(-1) * 3)


def context_of_another_layer(worker):
    stacked = worker._fused_kv_helper.project
    size = stacked.weight.shape[1] // stacked.layers
    columns = stacked.weight.view(torch.uint8)
    columns.copy_(columns.roll(size, 1))
    stacked.weight_scale.copy_(stacked.weight_scale.roll(size, 1))


def no_bridge(worker):
    for write in worker.draft_model.bridge.writes:
        write.zero_()


def another_norm(worker):
    worker.draft_model.hidden_norm.weight.copy_(worker.draft_model.hidden_norm.weight.flip(0) * -1)


def not_finite(worker):
    worker.draft_model.layers[0].input_layernorm.weight.fill_(float("nan"))


FAULTS = {
    "scales of fc forgotten": scale_of("fc"),
    "scales of one layer forgotten": scale_of("layers.1.self_attn.o_proj"),
    "K and V swapped": swapped_k_and_v,
    "scales in another order": reversed_scales,
    "context K and V of another layer": context_of_another_layer,
    "bridge not loaded": no_bridge,
    "a norm of other weights": another_norm,
    "not finite": not_finite,
}


@pytest.mark.parametrize("fault", FAULTS)
@torch.inference_mode()
def test_a_draft_that_is_not_the_checkpoints_is_refused(kept, fault):
    FAULTS[fault](kept)
    with pytest.raises(DSpineError, match="the loaded draft is not the checkpoint's") as error:
        self_check(kept)
    print(f"{fault}: {error.value}")


def test_it_can_be_turned_off_and_says_so(worker, monkeypatch, caplog):
    monkeypatch.setenv("DSPINE_SELF_CHECK", "0")
    with caplog.at_level(logging.INFO, "sglang_dspine"):
        assert self_check(worker) is None
    assert "self-check of the draft left out: DSPINE_SELF_CHECK=0" in caplog.text


def test_dummy_weights_and_a_missing_folder_are_nothing_to_compare_with(worker, monkeypatch, caplog):
    args = SimpleNamespace(load_format="auto", speculative_draft_load_format="dummy")
    with monkeypatch.context() as patch, caplog.at_level(logging.INFO, "sglang_dspine"):
        patch.setattr(worker, "server_args", args)
        assert self_check(worker) is None
        patch.undo()
        patch.setattr(worker.draft_model.config, "_name_or_path", "gone")
        assert self_check(worker) is None
    assert "dummies" in caplog.text and "gone is no folder" in caplog.text
