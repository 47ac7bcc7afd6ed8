"""The memory budget, and when it refuses (report 26)."""

from __future__ import annotations

import pytest

from sglang_dspine.config import load_config
from sglang_dspine.preflight.budget import check_budget, plan_budget, table
from sglang_dspine.preflight.gpu import Memory
from sglang_dspine.preflight.model import read_target
from tests.support.pairs import DEMO

from .folders import target

REPLAY = ["--enable-linear-replayssm-spec", "--mamba-ssm-dtype", "bfloat16"]
FLAGS = [
    "--mem-fraction-static",
    "0.76",
    "--max-running-requests",
    "32",
    "--mamba-radix-cache-strategy",
    "extra_buffer_lazy",
]
WEIGHTS = 18_000_000_000


def budget(folder, free, words=(*FLAGS, *REPLAY), unified=True, **changes):
    read = read_target(target(folder, WEIGHTS, **changes))
    return plan_budget(
        read, None, None, list(words), Memory(128 * 10**9, free, unified, "available memory of the host")
    )


def test_every_part_is_a_line_and_the_lines_add_up(tmp_path):
    found = budget(tmp_path, 119 * 10**9)
    named = {line.name: line.bytes for line in found.lines}
    assert named["target weights"] >= WEIGHTS and named["recurrent states"] == (4 * 32 + 1) * found.state.slot
    assert named["ReplaySSM rings"] == 33 * found.state.verify
    assert found.fixed == sum(named.values()) and found.static + found.room == found.memory.free
    assert found.per_token == 2 * 16 * 4 * 256 * 2
    text = "\n".join(table(found))
    for part in ("119.0 GB", "target weights", "draft weights", "recurrent states", "ReplaySSM", "KV cache", "graphs"):
        assert part in text


def test_caches_that_are_limited_in_tokens_are_no_larger(tmp_path):
    limited = [*FLAGS, *REPLAY, "--max-total-tokens", "8192"]
    text = "\n".join(table(budget(tmp_path, 119 * 10**9, limited)))
    assert f"{8192 * 2 * 16 * 4 * 256 * 2 / 1e9:.2f} GB  KV caches  (at most 8192 tokens, " in text


@pytest.mark.report(26)
def test_a_machine_whose_memory_is_taken_is_refused_with_the_amount_and_the_cure(tmp_path):
    assert check_budget(budget(tmp_path, 119 * 10**9)).level == "ok"
    short = check_budget(budget(tmp_path, 30 * 10**9))
    assert short.level == "fail" and "30.0 GB of 128.0 GB free" in short.found
    assert "end what else uses this memory" in short.todo and "fewer --max-running-requests than 32" in short.todo


@pytest.mark.report(26)
def test_the_amount_that_the_refusal_names_is_enough(tmp_path):
    needed = float(check_budget(budget(tmp_path, 30 * 10**9)).found.partition("needs ")[2].partition(" GB")[0])
    assert check_budget(budget(tmp_path, int((needed + 0.1) * 1e9))).level != "fail"
    assert check_budget(budget(tmp_path, int((needed - 0.1) * 1e9))).level == "fail"


@pytest.mark.report(26)
def test_shared_memory_that_is_set_aside_almost_whole_is_warned_of(tmp_path):
    greedy = ["--mem-fraction-static", "0.95", *FLAGS[2:], *REPLAY]
    warned = check_budget(budget(tmp_path, 119 * 10**9, greedy))
    assert warned.level == "warn" and "lower --mem-fraction-static" in warned.todo
    assert check_budget(budget(tmp_path, 119 * 10**9, greedy, unified=False)).level == "ok"


def test_without_replay_the_states_of_a_verify_step_can_be_what_is_too_much(tmp_path):
    plain = [*FLAGS, "--mamba-ssm-dtype", "float32"]
    refused = check_budget(budget(tmp_path, 119 * 10**9, plain))
    assert refused.level == "fail" and "--enable-linear-replayssm-spec" in refused.todo


def test_fewer_tokens_than_one_full_request_is_a_warning(tmp_path):
    found = budget(tmp_path, 60 * 10**9)
    assert 8192 < found.tokens < 262144 and check_budget(found).level == "warn"


def test_a_quantised_head_is_counted_twice_and_an_excluded_one_is_not(tmp_path):
    fp4 = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "ignore": []}
    copied = budget(tmp_path / "a", 119 * 10**9, quantization_config=fp4)
    assert any(line.bytes == 5120 * 248320 * 2 for line in copied.lines) and copied.per_token == 2 * 16 * 4 * 256
    kept = budget(tmp_path / "b", 119 * 10**9, quantization_config={**fp4, "ignore": ["lm_head"]})
    assert not any("head" in line.name for line in kept.lines)


def test_the_drafter_adds_its_weights_and_its_kv(tmp_path):
    folder = DEMO / "draft"
    config = load_config(folder)
    read = read_target(target(tmp_path, WEIGHTS))
    alone = budget(tmp_path, 119 * 10**9)
    with_draft = plan_budget(read, folder, config, [*FLAGS, *REPLAY], alone.memory)
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert with_draft.fixed - alone.fixed == weights
    assert with_draft.per_token - alone.per_token == 4 * config.num_layers * config.num_kv_heads * config.head_dim


def test_a_dense_target_has_no_recurrent_lines(tmp_path):
    found = budget(tmp_path, 119 * 10**9, linear_num_value_heads=None, layer_types=None)
    assert found.state is None and found.per_token == 2 * 64 * 4 * 256 * 2


def test_without_a_fraction_what_sglang_would_leave_is_reckoned(tmp_path):
    read = read_target(target(tmp_path, WEIGHTS))
    for total, fraction in ((143_000_000_000, 0.90), (24_000_000_000, 0.79)):
        found = plan_budget(read, None, None, REPLAY, Memory(total, total, False, "free memory of the GPU"))
        assert found.fraction == pytest.approx(fraction, abs=0.005) and not found.chosen


def test_a_pool_that_the_user_bounds_holds_no_more_tokens(tmp_path):
    assert budget(tmp_path, 119 * 10**9).tokens > 8192
    assert budget(tmp_path, 119 * 10**9, [*FLAGS, *REPLAY, "--max-total-tokens", "8192"]).tokens == 8192


def test_the_users_last_word_counts(tmp_path):
    found = budget(tmp_path, 119 * 10**9, [*FLAGS, *REPLAY, "--mem-fraction-static=0.5", "--max-running-requests", "4"])
    assert found.fraction == 0.5 and found.requests == 4
