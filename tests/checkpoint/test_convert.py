"""Every layout converts to FP8 and to BF16; a conversion that dies leaves nothing that loads."""

import json
import os
import signal
import weakref

import pytest
import torch
from safetensors.torch import load_file

from sglang_dspine.checkpoint import Layout, examine, load_checkpoint, values
from sglang_dspine.checkpoint import convert as module
from sglang_dspine.checkpoint import read as read_module
from sglang_dspine.checkpoint.convert import Format, convert, plan_conversion
from sglang_dspine.checkpoint.expected import is_fp8_linear
from sglang_dspine.checkpoint.fp8 import Rounding, quantise_rows
from sglang_dspine.checkpoint.lazy import LazyWeights
from sglang_dspine.checkpoint.write import TensorWriter
from sglang_dspine.config.parse import load_config
from sglang_dspine.errors import CheckpointError, DSpineError
from tests.support.checkpoints import SLIDING, TINY, change_a_bit, edit_tensors, write_checkpoint

BF16, F32 = torch.bfloat16, torch.float32
SOURCES = [(Layout.SPECFORGE, BF16, 2), (Layout.SPECFORGE, F32, 1), (Layout.REFERENCE, F32, 1), (Layout.FP8, BF16, 1)]


@pytest.mark.parametrize(("layout", "dtype", "shards"), SOURCES, ids=str)
def test_bf16_holds_the_source_rounded_to_bf16(tmp_path, layout, dtype, shards):
    written = write_checkpoint(tmp_path / "source", layout=layout, dtype=dtype, shards=shards)
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.BF16))
    config, found = load_checkpoint(tmp_path / "made")
    assert config == TINY and found.keys() == written.keys()
    for name, tensor in written.items():
        assert torch.equal(found[name], tensor.to(torch.bfloat16)), name
    assert examine(tmp_path / "made").layout is Layout.SPECFORGE


@pytest.mark.parametrize("layout", list(Layout), ids=str)
@pytest.mark.parametrize("rounding", list(Rounding), ids=str)
def test_fp8_holds_rows_as_sglang_quantises_them_and_the_rest_in_bf16(tmp_path, layout, rounding):
    written = write_checkpoint(tmp_path / "source", layout=layout)
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8, rounding))
    stored = load_file(tmp_path / "made" / "model.safetensors")
    for name, tensor in written.items():
        if is_fp8_linear(name):
            values, scale = quantise_rows(tensor, rounding)
            assert torch.equal(stored[name].view(torch.uint8), values.view(torch.uint8)), name
            assert torch.equal(stored[f"{name}_scale"], scale) and scale.shape == (tensor.shape[0], 1)
        else:
            assert stored[name].dtype == torch.bfloat16 and torch.equal(stored[name], tensor), name
    assert examine(tmp_path / "made").layout is Layout.FP8 and load_config(tmp_path / "made") == TINY


@pytest.mark.parametrize("rounding", list(Rounding), ids=str)
def test_fp8_to_bf16_to_fp8_gives_the_same_bytes(tmp_path, rounding):
    """Every quantised tensor: what makes serving an FP8 checkpoint through BF16 exact."""
    write_checkpoint(tmp_path / "source", SLIDING)
    convert(plan_conversion(tmp_path / "source", tmp_path / "fp8", Format.FP8, rounding))
    convert(plan_conversion(tmp_path / "fp8", tmp_path / "bf16", Format.BF16))
    convert(plan_conversion(tmp_path / "bf16", tmp_path / "again", Format.FP8, rounding))
    first, again = (load_file(tmp_path / name / "model.safetensors") for name in ("fp8", "again"))
    assert sum(name.endswith("_scale") for name in first) == 1 + 7 * SLIDING.num_layers
    for name, tensor in first.items():
        assert torch.equal(tensor.view(torch.uint8), again[name].view(torch.uint8)), name
    names = ("model.safetensors", "config.json")
    assert all((tmp_path / "fp8" / n).read_bytes() == (tmp_path / "again" / n).read_bytes() for n in names)


def test_the_same_conversion_gives_the_same_folder(tmp_path):
    write_checkpoint(tmp_path / "source")
    for made in ("one", "two"):
        convert(plan_conversion(tmp_path / "source", tmp_path / made, Format.FP8))
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_the_config_is_one_that_sglang_reads_rightly(tmp_path):
    write_checkpoint(tmp_path / "source", layout=Layout.REFERENCE)
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))
    raw = json.loads((tmp_path / "made" / "config.json").read_text())
    assert "quantization_config" not in raw and "config" not in raw
    assert raw["dtype"] == "bfloat16" and raw["is_causal"] is True and raw["layer_types"]


def test_provenance_names_the_source_by_its_sums_and_goes_back_to_the_first(tmp_path):
    write_checkpoint(tmp_path / "source")
    convert(plan_conversion(tmp_path / "source", tmp_path / "fp8", Format.FP8))
    convert(plan_conversion(tmp_path / "fp8", tmp_path / "bf16", Format.BF16))
    manifest = json.loads((tmp_path / "bf16" / "manifest.json").read_text())
    assert manifest["result"] == {"format": "bf16", "layout": "SpecForge"}
    assert manifest["source"]["name"] == "fp8" and manifest["source"]["layout"] == "FP8"
    first = manifest["source"]["manifest"]
    assert first["source"]["name"] == "source" and first["result"]["rounding"] == "ieee"
    assert first["files"]["model.safetensors"] == manifest["source"]["files"]["model.safetensors"]
    assert str(tmp_path) not in json.dumps(manifest)
    assert {"torch", "safetensors", "sglang-dspine", "python"} == manifest["made_with"].keys()


def test_licence_and_card_travel_along_and_other_files_do_not(tmp_path):
    write_checkpoint(tmp_path / "source")
    for name in ("LICENSE", "README.md", "optimizer.pt", ".hidden"):
        (tmp_path / "source" / name).write_text(name)
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {"LICENSE", "README.md", "config.json", "manifest.json", "model.safetensors"}


def test_progress_adds_up_to_the_bytes_announced_and_sizes_go_by_part(tmp_path):
    write_checkpoint(tmp_path / "source")
    seen = []
    plan = plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8)
    made = convert(plan, lambda name, size: seen.append(size))
    assert sum(seen) == plan.nbytes == sum(made.after.values())
    assert made.before["codes"] == made.after["codes"] and made.after["fc"] < 0.6 * made.before["fc"]


def test_a_source_that_would_not_load_makes_nothing(tmp_path):
    write_checkpoint(tmp_path / "source")
    edit_tensors(tmp_path / "source", fc__weight=lambda weight: weight.fill_(float("nan")))
    with pytest.raises(CheckpointError, match=r"fc\.weight is not finite"):
        convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_source_that_is_not_what_its_manifest_says_makes_nothing(tmp_path):
    write_checkpoint(tmp_path / "source")
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))
    change_a_bit(tmp_path / "made" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"is not the file that manifest\.json lists"):
        convert(plan_conversion(tmp_path / "made", tmp_path / "back", Format.BF16))
    assert not (tmp_path / "back").exists()


def test_a_number_beyond_bf16_is_refused(tmp_path):
    write_checkpoint(tmp_path / "source", dtype=torch.float32)
    edit_tensors(tmp_path / "source", fc__weight=lambda weight: weight.index_fill(0, torch.tensor([0]), 3.4e38))
    with pytest.raises(CheckpointError, match=r"fc\.weight does not fit BF16; expected at most 3\.39e38"):
        convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.BF16))
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_report_is_made_from_weights_that_are_written_and_appears_with_them(tmp_path):
    write_checkpoint(tmp_path / "source")

    def report(made, after):
        assert not made.destination.exists() and not (after.folder / "config.json").exists()
        assert after.layout is Layout.FP8 and LazyWeights(after)("fc.")["fc.weight"].isfinite().all()
        return {"conversion.md": "text"}

    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8), report=report)
    assert (tmp_path / "made" / "conversion.md").read_text() == "text" and examine(tmp_path / "made").problems == []


def test_a_report_that_fails_leaves_nothing(tmp_path):
    write_checkpoint(tmp_path / "source")
    with pytest.raises(KeyboardInterrupt):
        convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8), report=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def interrupt(made, after):
    raise KeyboardInterrupt


def test_an_existing_destination_is_left_alone(tmp_path):
    write_checkpoint(tmp_path / "source")
    before = (tmp_path / "source" / "model.safetensors").read_bytes()
    with pytest.raises(DSpineError, match="never overwritten"):
        convert(plan_conversion(tmp_path / "source", tmp_path / "source", Format.FP8))
    assert (tmp_path / "source" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("steps", [("fp8",), ("fp8", "bf16")], ids="-".join)
def test_the_rounding_of_a_source_is_kept_and_never_mixed(tmp_path, steps):
    write_checkpoint(tmp_path / "0")
    for step, form in enumerate(steps):
        asked = Rounding.HOPPER if form == "fp8" else None
        convert(plan_conversion(tmp_path / f"{step}", tmp_path / f"{step + 1}", Format(form), asked))
    source = tmp_path / f"{len(steps)}"
    with pytest.raises(DSpineError, match="was rounded to FP8 with --rounding hopper, which --rounding ieee would"):
        plan_conversion(source, tmp_path / "made", Format.FP8, Rounding.IEEE)
    convert(plan_conversion(source, tmp_path / "made", Format.FP8))
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("1", "made")]
    assert weights[0] == weights[1]
    assert json.loads((tmp_path / "made" / "manifest.json").read_text())["result"]["rounding"] == "hopper"


def test_a_rounding_of_bf16_is_refused(tmp_path):
    write_checkpoint(tmp_path / "source")
    with pytest.raises(DSpineError, match="leave it out with --format bf16"):
        plan_conversion(tmp_path / "source", tmp_path / "made", Format.BF16, Rounding.HOPPER)


def test_a_destination_inside_the_source_is_refused(tmp_path):
    write_checkpoint(tmp_path / "source")
    (tmp_path / "link").symlink_to(tmp_path / "source")
    for inside in (tmp_path / "source" / "made", tmp_path / "link" / "deep" / "made"):
        with pytest.raises(DSpineError, match="lies inside"):
            plan_conversion(tmp_path / "source", inside, Format.FP8)
    plan_conversion(tmp_path / "source", tmp_path / "source-made", Format.FP8)


def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)


def plant_death(moment, patch):
    if moment == "tensor":
        write, count = TensorWriter.write, iter(range(99))
        patch.setattr(TensorWriter, "write", lambda *args: die() if next(count) == 12 else write(*args))
    elif moment == "closing":
        patch.setattr(TensorWriter, "close", die)
    elif moment == "provenance":
        patch.setattr(module, "_provenance", die)
    elif moment == "config":
        write_text = module.write_text
        patch.setattr(
            module, "write_text", lambda path, text: die() if path.name == "config.json" else write_text(path, text)
        )


@pytest.mark.parametrize("moment", ["tensor", "closing", "report", "provenance", "config"])
def test_a_killed_conversion_leaves_nothing_that_loads(tmp_path, moment):
    write_checkpoint(tmp_path / "source")
    child = os.fork()
    if not child:
        torch.set_num_threads(1)  # a forked process has no thread pool
        with pytest.MonkeyPatch.context() as patch:
            plant_death(moment, patch)
            report = die if moment == "report" else lambda made, after: {"conversion.md": "a report"}
            convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8), report=report)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not (tmp_path / "made").exists()
    left = [path for path in tmp_path.iterdir() if path.name != "source"]
    assert [path.name.startswith(".made.") and path.name.endswith(".partial") for path in left] == [True]
    with pytest.raises(CheckpointError):
        load_checkpoint(left[0])
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))  # the next try can
    assert examine(tmp_path / "made").problems == []


def test_memory_is_that_of_one_tensor(tmp_path, monkeypatch):
    """No tensor of the source is alive when the next one is read."""
    write_checkpoint(tmp_path / "source")
    alive, read = [], values.read_checked

    def watched(name, stored, problems):
        assert not any(reference() is not None for reference in alive), name
        tensor = read(name, stored, problems)
        if not name.endswith("_scale"):
            alive[:] = [weakref.ref(tensor)]
        return tensor

    monkeypatch.setattr(read_module, "read_checked", watched)
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))
