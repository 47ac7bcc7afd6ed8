"""What the target leaves behind, and how it is kept."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from sglang_dspine.acceptance.capture import Captured, Target
from sglang_dspine.acceptance.store import Store
from sglang_dspine.errors import DSpineError
from tests.support.models import dense_qwen3, hf_greedy, hybrid_qwen35

IDS = [7, 65, 66, 3, 200, 66, 67, 65, 9, 30, 31, 32]


@pytest.mark.parametrize("path", [dense_qwen3, hybrid_qwen35])
def test_taps_are_the_outputs_of_their_layers_and_best_the_targets_own_choice(path):
    target = Target(path(), "float32", "cpu")
    captured = target.capture(IDS, (2, 0))
    model = AutoModelForCausalLM.from_pretrained(path(), dtype=torch.float32).eval()
    with torch.no_grad():
        out = model(torch.tensor([IDS]), output_hidden_states=True)
    for place, layer in enumerate((2, 0)):
        torch.testing.assert_close(captured.taps[:, place], out.hidden_states[layer + 1][0])
    assert torch.equal(captured.best, out.logits[0].argmax(-1)) and captured.tokens.tolist() == IDS


def test_the_last_layers_output_is_taken_before_the_final_norm():
    target = Target(dense_qwen3(), "float32", "cpu")
    last = target.capture(IDS, (3,)).taps[:, 0]
    torch.testing.assert_close(target.body.norm(last).argmax(-1), target.body.norm(last).argmax(-1))
    hidden = target.body(torch.tensor([IDS])).last_hidden_state[0]
    torch.testing.assert_close(target.body.norm(last), hidden)


def test_a_continuation_is_greedy_and_of_the_length_asked_for():
    whole = Target(dense_qwen3(), "float32", "cpu").continued(IDS, 10)
    assert list(whole) == IDS + hf_greedy(dense_qwen3(), IDS, 10)


def test_a_tap_the_target_does_not_have_is_refused():
    with pytest.raises(DSpineError, match="4 layers"):
        Target(dense_qwen3(), "float32", "cpu").capture(IDS, (1, 4))


@pytest.fixture
def captured() -> Captured:
    return Captured(torch.tensor(IDS), torch.randn(len(IDS), 2, 8, dtype=torch.bfloat16), torch.arange(len(IDS)))


def test_captures_come_back_bit_for_bit(tmp_path, captured):
    store = Store(tmp_path, dense_qwen3(), "bfloat16", (0, 2))
    assert not store.has(IDS)
    store.save(IDS, captured)
    again = store.load(IDS)
    assert all(torch.equal(getattr(captured, f), getattr(again, f)) for f in ("tokens", "taps", "best"))


def test_other_text_taps_precision_and_targets_are_other_captures(tmp_path, captured):
    Store(tmp_path, dense_qwen3(), "bfloat16", (0, 2)).save(IDS, captured)
    given = [
        (dense_qwen3(), "float32", (0, 2)),
        (dense_qwen3(), "bfloat16", (0, 1)),
        (hybrid_qwen35(), "bfloat16", (0, 2)),
    ]
    assert not any(Store(tmp_path, *other).has(IDS) for other in given)
    assert not Store(tmp_path, dense_qwen3(), "bfloat16", (0, 2)).has([*IDS, 1])


def test_a_damaged_capture_is_removed_and_not_used(tmp_path, captured):
    store = Store(tmp_path, dense_qwen3(), "bfloat16", (0, 2))
    store.save(IDS, captured)
    store.path(IDS).write_bytes(store.path(IDS).read_bytes()[:100])
    assert store.load(IDS) is None and not store.has(IDS)
