"""The DFlash-style drafter for the demo's target."""

import json

import pytest
import torch

from demo import train_dflash
from demo.clock import Clock
from demo.dflash import FlashDrafter, flash_loss, load_flash, save_flash
from demo.distil import Material, train_drafter
from demo.hybrid import generate, load_target
from demo.text import stdlib_path
from sglang_dspine.acceptance.flash import read_flash
from tests.support.pairs import DEMO


@pytest.fixture(scope="module")
def target():
    return load_target(DEMO / "target")


@torch.no_grad()
def test_rows_see_their_whole_block_and_only_the_context_before_their_anchor(target):
    torch.manual_seed(0)
    drafter = FlashDrafter().eval()
    embed, head = target.model.embed_tokens.weight, target.lm_head.weight
    taps, tokens = torch.randn(1, 60, 4 * 192), torch.randint(256, (1, 60))
    at = torch.tensor([[5, 30]])
    before = drafter(taps, tokens, at, embed, head)
    later = taps.clone()
    later[:, 30:] = 3.0
    assert torch.equal(before, drafter(later, tokens, at, embed, head))
    earlier = taps.clone()
    earlier[:, 29] = 3.0
    moved = drafter(earlier, tokens, at, embed, head)
    assert torch.equal(before[:, 0], moved[:, 0]) and not torch.equal(before[:, 1], moved[:, 1])
    _, _, mask = drafter.geometry(at, 60)
    block = mask[0, 0, :, 60:]
    assert block[:16, :16].all() and not block[:16, 16:].any()


def test_two_steps_of_training_move_it_and_leave_a_drafter_that_loads(target, tmp_path):
    torch.manual_seed(1)
    text = generate(target, torch.randint(97, 123, (3, 24)), 16)
    drafter = FlashDrafter()
    before = drafter.fc.weight.clone()
    material = [Material(text.to(torch.int16), 24)]
    train_drafter(drafter, target, material, Clock(60, steps=2), 2, 3, lambda line: None, loss_of=flash_loss)
    assert not torch.equal(before, drafter.fc.weight)
    save_flash(drafter, tmp_path, 512)
    again = load_flash(tmp_path).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in drafter.state_dict().items())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4e6


def test_its_config_is_the_one_of_the_family_without_bridge_or_window(tmp_path):
    save_flash(FlashDrafter(), tmp_path, 512)
    config = read_flash(tmp_path)
    assert config.kind == "DFlash" and config.causal == (False,) * 3 and config.shapes.sliding_window is None
    assert config.shapes.block_size == 16 and config.shapes.target_layer_ids == (1, 3, 5, 6)
    assert "dspine_config" not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.full
def test_the_command_trains_saves_and_takes_a_first_look(tmp_path, monkeypatch, capsys):
    for name in ("csv.py", "shelve.py", "argparse.py", "ast.py"):  # two held out, two to train on
        (tmp_path / name).write_bytes((stdlib_path() / name).read_bytes())
    words = "--steps 2 --generated 1 --rows 4 --batch 2 --length 64 --anchors 4 --prompts 2 --device cpu"
    monkeypatch.setattr("sys.argv", ["train_dflash", str(tmp_path / "out"), *words.split(), "--stdlib", str(tmp_path)])
    train_dflash.main()
    assert "accepted length" in capsys.readouterr().out
    assert (tmp_path / "out" / "model.safetensors").exists()
