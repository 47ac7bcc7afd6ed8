"""Each way a checkpoint can be unfit ends in one error: file, tensor, expected, found."""

import pytest
import torch

from sglang_dspine.checkpoint import Layout, load_checkpoint
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import edit_config, edit_tensors, write_checkpoint

MODEL, TRANSFER = "model.safetensors", "transfer.safetensors"


def refusal(folder):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    return str(caught.value)


def put(place, value):
    """A change that writes one element."""

    def change(tensor):
        tensor[place] = value
        return tensor

    return change


NAN, INF = float("nan"), float("inf")
S, R, F = Layout.SPECFORGE, Layout.REFERENCE, Layout.FP8
Q, QS = "layers__0__self_attn__q_proj__weight", "layers__0__self_attn__q_proj__weight_scale"

# layout, file, tensor (`__` for `.`), change -> what the message must say beside file and tensor
BROKEN = {
    "missing": (S, MODEL, "fc__weight", None, ["is missing", "expected [32, 64]", "found nothing"]),
    "missing bridge": (S, MODEL, "injection__bias", None, ["is missing", "expected [8]"]),
    "missing scale": (F, MODEL, QS, None, ["is missing", "expected [32, 1] F32"]),
    "surplus": (S, MODEL, "extra__weight", torch.ones(3), ["is surplus", "found [3] F32"]),
    "own head": (S, MODEL, "lm_head__weight", torch.ones(67, 32), ["is surplus", "the target's"]),
    "extra layer": (S, MODEL, "layers__2__mlp__up_proj__weight", torch.ones(48, 32), ["is surplus"]),
    "scale without FP8": (S, MODEL, QS, torch.ones(32, 1), ["is surplus", "found [32, 1] F32"]),
    "shape": (S, MODEL, Q, lambda w: w[:, :31].contiguous(), ["expected [32, 32]", "found [32, 31]"]),
    "transposed": (S, MODEL, "fc__weight", lambda w: w.T.contiguous(), ["[32, 64]", "found [64, 32]"]),
    "other taps": (S, MODEL, "fc__weight", lambda w: w.repeat(1, 2), ["names 2 taps of width 32"]),
    "scalar norm": (S, MODEL, "norm__weight", torch.tensor(1.0), ["expected [32]", "found []"]),
    "flat scale": (F, MODEL, QS, lambda w: w[:, 0].contiguous(), ["expected [32, 1]", "found [32]"]),
    "integers": (S, MODEL, Q, lambda w: w.to(torch.int8), ["wrong dtype", "BF16 or F16 or F32", "found I8"]),
    "doubles": (S, MODEL, Q, lambda w: w.double(), ["wrong dtype", "found F64"]),
    "half FP8": (F, MODEL, Q, lambda w: w.to(torch.bfloat16), ["wrong dtype", "F8_E4M3", "found BF16"]),
    "e5m2": (F, MODEL, Q, lambda w: w.float().to(torch.float8_e5m2), ["wrong dtype", "found F8_E5M2"]),
    "half scale": (F, MODEL, QS, lambda w: w.half(), ["wrong dtype", "expected F32", "found F16"]),
    "NaN": (S, MODEL, Q, put((3, 4), NAN), ["not finite", "1 of 1024", "first at [3, 4]"]),
    "infinite norm": (S, MODEL, "norm__weight", put(5, INF), ["not finite", "1 of 32", "first at [5]"]),
    "NaN in FP8": (F, MODEL, Q, lambda w: put((1, 2), NAN)(w.float()).to(w.dtype), ["not finite"]),
    "infinite scale": (F, MODEL, QS, put((7, 0), INF), ["not finite", "first at [7, 0]"]),
    "negative scale": (F, MODEL, QS, put((7, 0), -0.5), ["negative", "scales >= 0", "found -0.5"]),
    "other vocabulary": (
        S, MODEL, "transfer_codes", lambda w: w[:60].contiguous(),
        ["expected [67, 16]", "found [60, 16]", "vocabulary of 60, config.json says 67"],
    ),
    "padded codes": (R, TRANSFER, "codes", lambda w: torch.cat((w, w[:5])), ["vocabulary of 72"]),
    "long row": (S, MODEL, "transfer_codes", lambda w: put(9, w[9] * 1.1)(w), ["1 of 67", "worst, 9,"]),
    "zero row": (R, TRANSFER, "codes", put(66, 0.0), ["length 1", "1 of 67", "of length 0"]),
    "NaN code": (R, TRANSFER, "codes", put((2, 3), NAN), ["not finite", "first at [2, 3]"]),
    "no codes": (R, TRANSFER, "codes", None, ["is missing", "found no tensor"]),
    "untrained": (S, MODEL, "transfer_ready", torch.tensor(False), ["expected true", "never initialised"]),
    "no ready flag": (S, MODEL, "transfer_ready", None, ["is missing", "expected [] BOOL"]),
    "number for a flag": (S, MODEL, "transfer_ready", torch.tensor(1.0), ["wrong dtype", "expected BOOL"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_checkpoint_is_refused_with_file_tensor_expected_and_found(tmp_path, name):
    layout, file, tensor, change, parts = BROKEN[name]
    write_checkpoint(tmp_path, layout=layout)
    load_checkpoint(tmp_path)  # whole before it was broken
    edit_tensors(tmp_path, file, **{tensor: change})
    message = refusal(tmp_path)
    where = str(tmp_path) if change is None and tensor != "codes" else str(tmp_path / file)
    assert message.startswith(where) and f"tensor {tensor.replace('__', '.')} " in message, message
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize("file", ["model.safetensors", "transfer.safetensors"])
def test_a_truncated_file_is_named(tmp_path, file):
    write_checkpoint(tmp_path, layout=Layout.REFERENCE)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[:-100])
    message = refusal(tmp_path)
    assert message.startswith(str(path)) and "expected a whole safetensors file" in message


def test_a_truncated_shard_is_named(tmp_path):
    write_checkpoint(tmp_path, shards=3)
    path = tmp_path / "model-00002-of-00003.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    message = refusal(tmp_path)
    assert message.startswith(str(path)) and "problems" not in message  # its tensors are not called missing too


def test_no_weights_at_all_and_too_many_files_are_refused(tmp_path):
    write_checkpoint(tmp_path)
    whole = tmp_path / MODEL
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).write_bytes(whole.read_bytes())
    whole.unlink()
    assert "found a.safetensors, b.safetensors" in refusal(tmp_path)
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).unlink()
    assert "found no safetensors file" in refusal(tmp_path)


def test_all_problems_stand_in_one_message(tmp_path):
    write_checkpoint(tmp_path)
    edit_tensors(tmp_path, fc__weight=None, norm__weight=lambda w: w[:3].contiguous(), extra=torch.ones(1))
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path}: 3 problems")
    for part in ("fc.weight is missing", "norm.weight has the wrong shape", "extra is surplus"):
        assert part in message


def test_faults_of_config_and_files_stand_in_one_message(tmp_path):
    write_checkpoint(tmp_path)
    edit_config(tmp_path, head_dim=None)
    (tmp_path / MODEL).write_bytes(b"")
    message = refusal(tmp_path)
    assert "2 problems" in message and "head_dim is missing" in message and "unreadable" in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_codes_rounded_to_any_dtype_are_still_unit_rows(tmp_path, dtype):
    write_checkpoint(tmp_path, dtype=dtype)
    load_checkpoint(tmp_path)


def test_a_row_off_by_more_than_rounding_is_refused(tmp_path):
    for dtype, factor in ((torch.float32, 1.002), (torch.bfloat16, 1.03)):
        write_checkpoint(tmp_path, dtype=dtype)
        edit_tensors(tmp_path, transfer_codes=lambda w, factor=factor: w * factor)
        assert "unit length" in refusal(tmp_path)


def test_a_config_of_another_model_size_names_every_tensor_that_differs(tmp_path):
    write_checkpoint(tmp_path)
    edit_config(tmp_path, intermediate_size=64)
    message = refusal(tmp_path)
    assert "6 problems" in message and "expected [64, 32]; found [48, 32]" in message
