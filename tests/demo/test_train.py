"""Training runs on CPU, ends by its budget and leaves a loadable pair."""

import torch

from demo.clock import Clock
from demo.distil import Material, choose_anchors, make_material, train_drafter
from demo.drafter import Drafter, save_drafter
from demo.hybrid import generate, load_target, new_target, save_target, train_target
from demo.text import Corpus
from sglang_dspine.checkpoint import examine


def silent(line: str) -> None:
    assert "nan" not in line


def test_two_steps_of_each_stage_leave_a_pair_that_loads(tmp_path):
    torch.manual_seed(0)
    corpus = Corpus([torch.randint(97, 123, (4000,), dtype=torch.int16)], (1.0,))
    model = new_target()
    before = model.lm_head.weight.clone()
    train_target(model, corpus, Clock(60, steps=2), 2, 40, silent)
    assert not torch.equal(before, model.lm_head.weight)
    text = generate(model.eval(), corpus.rows(4, 24), 8, torch.tensor([0.0, 0.0, 0.7, 1.0]))
    drafter = Drafter()
    train_drafter(drafter, model, [Material(text.to(torch.int16), 24)], Clock(60, steps=2), 2, 3, silent)
    save_target(model, tmp_path / "target")
    save_drafter(drafter, tmp_path / "draft", 512)
    examine(tmp_path / "draft").raise_problems()
    again = load_target(tmp_path / "target")
    assert torch.equal(again(input_ids=text).logits, model(input_ids=text).logits)


def test_generation_matches_a_forward_over_the_whole_text():
    torch.manual_seed(1)
    model = new_target().eval()
    text = generate(model, torch.randint(256, (2, 70)), 12)
    with torch.no_grad():
        top = model(input_ids=text).logits.argmax(-1)
    assert torch.equal(top[:, 69:-1], text[:, 70:])


def test_every_anchor_leaves_room_for_its_block():
    at = choose_anchors(50, 12, prompt=90, length=100, block=16, device="cpu")
    assert at.min() >= 1 and at.max() == 84


def test_the_rate_warms_up_and_anneals():
    clock = Clock(1e9, steps=1000)
    rates = []
    while clock.tick():
        rates.append(clock.rate(1.0))
    assert rates[0] < 0.05 and max(rates) > 0.9 and rates[-1] < 0.03


def test_material_may_have_fewer_rows_than_temperatures():
    corpus = Corpus([torch.randint(97, 123, (4000,), dtype=torch.int16)], (1.0,))
    made = make_material(new_target().eval(), corpus, Clock(60, steps=1), 2, [(12, 6), (4, 14)], silent)
    assert [tuple(m.tokens.shape) for m in made] == [(2, 18), (2, 18)]
