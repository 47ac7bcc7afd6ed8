"""What SGLang would misread is served from a view; what it reads rightly is served as it lies there."""

import json

import pytest
import torch

from sglang_dspine.checkpoint import Layout, load_checkpoint
from sglang_dspine.checkpoint.convert import Format, convert, plan_conversion
from sglang_dspine.checkpoint.view import servable_folder
from tests.support.checkpoints import TINY, edit_config, write_checkpoint


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_a_config_that_says_all_is_served_in_place(tmp_path):
    write_checkpoint(tmp_path / "source")
    edit_config(tmp_path / "source", dtype="bfloat16")
    assert servable_folder(tmp_path / "source", tmp_path / "cache") == tmp_path / "source"
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))
    assert servable_folder(tmp_path / "made", tmp_path / "cache") == tmp_path / "made"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("missing", ["is_causal", "dtype"])
def test_what_is_not_said_is_said_in_a_view(tmp_path, missing):
    folder = tmp_path / "source"
    written = write_checkpoint(folder)
    edit_config(folder, dtype="bfloat16")
    edit_config(folder, **{missing: None})
    before = (folder / "config.json").read_bytes()
    view = servable_folder(folder, tmp_path / "cache")
    assert view != folder and (folder / "config.json").read_bytes() == before
    said = config_of(view)
    assert said["is_causal"] is True and said["layer_types"] and said["dtype"] == "bfloat16"
    assert torch.equal(load_checkpoint(view)[1]["fc.weight"], written["fc.weight"])
    assert servable_folder(folder, tmp_path / "cache") == view  # made once


def test_the_reference_form_is_unwrapped(tmp_path):
    write_checkpoint(tmp_path / "source", layout=Layout.REFERENCE)
    view = servable_folder(tmp_path / "source", tmp_path / "cache")
    assert "config" not in config_of(view) and config_of(view)["architectures"] == ["DSpineDraftModel"]
    assert load_checkpoint(view)[0] == TINY


def test_sglang_would_serve_a_config_without_a_dtype_as_float16():
    """Why a dtype is asked for."""
    model_config = pytest.importorskip("sglang.srt.configs.model_config")
    from transformers import Qwen3Config

    assert model_config._get_and_verify_dtype(Qwen3Config(), "auto") is torch.float16
    assert model_config._get_and_verify_dtype(Qwen3Config(dtype="bfloat16"), "auto") is torch.bfloat16
