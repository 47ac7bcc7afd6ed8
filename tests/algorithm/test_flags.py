"""Every flag is filled in, checked, or refused with the right value."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sglang_dspine.algorithm import flags
from sglang_dspine.errors import CheckpointError, FlagError

from ..support.checkpoints import SLIDING, TINY, edit_config, write_checkpoint


@pytest.fixture
def draft(tmp_path):
    write_checkpoint(tmp_path / "draft", TINY)
    return tmp_path / "draft"


def arguments(draft, **changes):
    """SGLang's arguments as they stand when the algorithm is asked."""
    given = {
        "pp_size": 1, "enable_dp_attention": False, "enable_lora": None, "lora_paths": None,
        "speculative_adaptive": False,
        "speculative_draft_model_path": str(draft), "speculative_draft_model_revision": None, "load_format": "auto",
        "speculative_draft_load_format": None, "speculative_num_steps": None, "speculative_eagle_topk": None,
        "speculative_num_draft_tokens": None, "speculative_dflash_block_size": None,
        "speculative_draft_window_size": None, "_speculative_draft_quantization_explicitly_set": False,
        "speculative_draft_model_quantization": None, "speculative_draft_kv_cache_dtype": None,
        "speculative_draft_attention_backend": None, "speculative_dspark_sps_table_path": None,
        "device": "cpu", "max_running_requests": None, "fp4_gemm_runner_backend": "auto",
    }  # fmt: skip
    return SimpleNamespace(**{**given, **changes})


def test_what_is_unset_comes_from_the_checkpoint(draft):
    args = arguments(draft)
    flags.resolve(args)
    assert args.speculative_num_draft_tokens == 16
    assert (args.speculative_num_steps, args.speculative_eagle_topk) == (1, 1)
    assert args.speculative_draft_kv_cache_dtype == "auto"
    assert args.speculative_draft_attention_backend == "intel_amx"
    assert args.max_running_requests == flags.DEFAULT_MAX_RUNNING_REQUESTS


@pytest.mark.report(13)
@pytest.mark.parametrize("width", [1, 0, 17, 32])
def test_a_width_outside_2_to_block_is_refused_with_the_right_number(draft, width):
    with pytest.raises(
        FlagError, match=rf"--speculative-num-draft-tokens {width}: expected 2 to 16 .*1 to 15 proposals"
    ):
        flags.resolve(arguments(draft, speculative_num_draft_tokens=width))


@pytest.mark.parametrize("width", [2, 8, 16])
def test_a_width_inside_the_block_is_kept(draft, width):
    args = arguments(draft, speculative_num_draft_tokens=width)
    flags.resolve(args)
    assert args.speculative_num_draft_tokens == width


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pp_size": 2}, "--pp-size 1, found 2"),
        ({"enable_dp_attention": True}, "--enable-dp-attention"),
        ({"lora_paths": ["x"]}, "LoRA"),
        ({"enable_streaming_session": True}, "send the whole conversation"),
        ({"speculative_adaptive": True}, "--speculative-adaptive"),
        ({"mamba_radix_cache_strategy": "extra_buffer_lazy", "disable_overlap_schedule": True}, "or pass extra_buffer"),
        ({"speculative_draft_sink_size": 4}, "--speculative-draft-sink-size"),
        ({"speculative_draft_model_path": None}, "needs --speculative-draft-model-path"),
        ({"speculative_num_steps": 3}, "--speculative-num-steps 3"),
        ({"speculative_eagle_topk": 4}, "--speculative-eagle-topk 4"),
        ({"speculative_num_draft_tokens": 8, "speculative_dflash_block_size": 16}, "must agree"),
        ({"speculative_draft_window_size": 8}, "smaller than the verify width 16"),
        (
            {"speculative_draft_model_quantization": "awq", "_speculative_draft_quantization_explicitly_set": True},
            "'fp8' or 'unquant'",
        ),
    ],
)
def test_a_combination_that_cannot_work_is_refused(draft, changes, message):
    with pytest.raises(FlagError, match=message):
        flags.resolve(arguments(draft, **changes))


def test_a_window_is_taken_and_said_to_count(draft, caplog):
    """SGLang warns that the flag has no effect: it does not know this algorithm."""
    args = arguments(draft, speculative_draft_window_size=32)
    with caplog.at_level("INFO", logger=flags.__name__):
        flags.resolve(args)
    assert args.speculative_draft_window_size == 32 and "last 32 positions" in caplog.text


def test_a_window_beyond_the_trained_one_is_refused(tmp_path):
    write_checkpoint(tmp_path / "draft", replace(SLIDING, sliding_window=64))
    with pytest.raises(FlagError, match="beyond the 64 positions"):
        flags.resolve(arguments(tmp_path / "draft", speculative_draft_window_size=65))


@pytest.mark.report(7)
def test_the_targets_quantisation_is_never_inherited(draft):
    args = arguments(draft, speculative_draft_model_quantization="modelopt_fp4")
    flags.resolve(args)
    assert args.speculative_draft_model_quantization is None


def test_a_quantisation_that_was_asked_for_is_kept(draft):
    args = arguments(
        draft, speculative_draft_model_quantization="fp8", _speculative_draft_quantization_explicitly_set=True
    )
    flags.resolve(args)
    assert args.speculative_draft_model_quantization == "fp8"


@pytest.mark.report(9)
def test_marlin_is_handed_what_it_can_multiply(draft, monkeypatch):
    monkeypatch.setenv(flags.UNFUSED, "")  # so that it is put back
    monkeypatch.delenv(flags.UNFUSED)
    flags.resolve(arguments(draft))
    assert flags.UNFUSED not in os.environ
    flags.resolve(arguments(draft, fp4_gemm_runner_backend="marlin"))
    assert os.environ[flags.UNFUSED] == "1"
    monkeypatch.setenv(flags.UNFUSED, "0")
    with pytest.raises(FlagError, match=f"{flags.UNFUSED}=0 .*unset it"):
        flags.resolve(arguments(draft, fp4_gemm_runner_backend="marlin"))


def test_the_drafts_kv_dtype_is_its_own_unless_given(draft):
    args = arguments(draft, speculative_draft_kv_cache_dtype="bfloat16")
    flags.resolve(args)
    assert args.speculative_draft_kv_cache_dtype == "bfloat16"


def test_a_broken_checkpoint_is_refused_before_anything_is_loaded(draft):
    (draft / "model.safetensors").write_bytes(b"short")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        flags.resolve(arguments(draft))


def test_a_config_sglang_would_misread_is_served_through_a_view(draft, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    edit_config(draft, is_causal=None)
    args = arguments(draft)
    flags.resolve(args)
    assert args.speculative_draft_model_path != str(draft)
    assert '"is_causal": true' in (tmp_path / args.speculative_draft_model_path / "config.json").read_text()


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"is no folder"):
        flags.resolve(arguments(tmp_path / "nothing"))


def put_table(path, *widths: int):
    path.write_text(json.dumps({"version": 1, "widths": widths, "provenance": {"gpu": "g", "source": "s"}}))
    return str(path)


def test_a_table_beside_the_checkpoint_is_written_down_for_the_workers(draft):
    path = put_table(draft / "sps.json", 12, 8)
    args = arguments(draft)
    flags.resolve(args)
    assert args.speculative_num_draft_tokens == 12
    assert Path(args.speculative_dspark_sps_table_path).samefile(path)


def test_a_width_on_the_command_line_is_not_overruled_by_a_table_that_lies_there(draft):
    put_table(draft / "sps.json", 12, 8)
    args = arguments(draft, speculative_num_draft_tokens=4)
    flags.resolve(args)
    assert (args.speculative_num_draft_tokens, args.speculative_dspark_sps_table_path) == (4, None)


def test_a_table_wider_than_the_width_asked_for_is_refused_with_the_right_number(draft, tmp_path):
    path = put_table(tmp_path / "mine.json", 12, 8)
    with pytest.raises(FlagError, match=r"--speculative-num-draft-tokens 8: .* pass 12 or leave it unset"):
        flags.resolve(arguments(draft, speculative_num_draft_tokens=8, speculative_dspark_sps_table_path=path))


def test_without_a_table_one_warning_says_how_to_tune(draft, caplog):
    with caplog.at_level(logging.WARNING):
        flags.resolve(arguments(draft))
    assert [record for record in caplog.records if "tune_sps.py" in record.getMessage()] == [caplog.records[-1]]
