"""Drafters of the DFlash family: this form against another one of each part."""

import json
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from demo.dflash import FlashDrafter, save_flash
from demo.drafter import Shape
from sglang_dspine.acceptance.arm import parse_arm
from sglang_dspine.acceptance.block import _convolved
from sglang_dspine.acceptance.capture import Ends
from sglang_dspine.acceptance.flash import FlashConfig, read_flash
from sglang_dspine.acceptance.rival import Rival
from sglang_dspine.errors import DSpineError

SMALL = Shape(
    hidden=32, intermediate=48, layers=2, heads=4, kv_heads=2, head_dim=16, block=6, vocab=70, mask=69, taps=(0, 2)
)
AT = [1, 9, 20, 33]


@pytest.fixture(scope="module")
def given():
    """(ends, taps [S, T·H], tokens [S]), random."""
    random = torch.Generator().manual_seed(3)
    embed, head = torch.randn(2, 70, 32, generator=random)
    return Ends(embed, head), torch.randn(40, 64, generator=random), torch.randint(60, (40,), generator=random)


def folder_of(tmp_path: Path, seed: int = 0, **changes) -> tuple[Path, FlashDrafter]:
    torch.manual_seed(seed)
    drafter = FlashDrafter(SMALL)
    with torch.no_grad():
        for p in drafter.parameters():
            p.copy_((p + 0.3 * torch.randn_like(p)).bfloat16())
    save_flash(drafter, tmp_path, 512)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    return tmp_path, drafter


def add(folder: Path, **tensors: torch.Tensor) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name.replace("__", "."): t for name, t in tensors.items()}, path)


def test_a_dflash_drafter_proposes_what_its_training_form_proposes(tmp_path, given):
    ends, taps, tokens = given
    folder, drafter = folder_of(tmp_path)
    with torch.no_grad():
        logits = drafter(taps[None], tokens[None], torch.tensor([AT]), ends.embed, ends.head)
    found = Rival(parse_arm(f"a {folder}"), ends, torch.float32, "cpu").propose(taps, tokens, AT, 6)
    assert torch.equal(found, logits[0].argmax(-1))


def test_rows_that_see_one_another_make_another_width_another_draft(tmp_path, given):
    rival = Rival(parse_arm(f"a {folder_of(tmp_path)[0]}"), given[0], torch.float32, "cpu")
    whole, narrow = (rival.propose(*given[1:], AT, rows) for rows in (6, 3))
    assert not torch.equal(whole[:, :2], narrow)


def test_a_window_hides_old_context_and_nothing_of_the_block(tmp_path, given):
    ends, taps, tokens = given
    folder, _ = folder_of(tmp_path)
    rival = Rival(parse_arm(f"a {folder} window=6"), ends, torch.float32, "cpu")
    before = rival.propose(taps, tokens, [30], 6)
    far, near = taps.clone(), taps.clone()
    far[:24], near[29] = 9.0, 9.0  # row 30 sees positions above 24
    assert torch.equal(before, rival.propose(far, tokens, [30], 6))
    assert not torch.equal(before, rival.propose(near, tokens, [30], 6))


def test_convolution_is_the_sum_over_taps_and_channels():
    """Written out: out[i, h] = sum over t of (base[t, h] + made[i, t, group of h]) x[i - t, h]."""
    torch.manual_seed(1)
    n, b, hidden, taps, group = 2, 5, 8, 3, 4
    x = torch.randn(n, b, hidden)
    base, projection = torch.randn(2, taps, hidden), torch.randn(2 * taps * (hidden // group), hidden)
    layer = {"mlp_conv.base_kernel": base, "mlp_conv.kernel_projection.weight": projection}
    config = FlashConfig("DFlash2", None, (), conv_taps=taps, conv_group=group)
    found, after = _convolved(x, layer, "mlp", config)
    y = torch.randn(n, b, hidden)
    for side, (given, out) in enumerate([(x, found), (y, after(y))]):
        true = torch.zeros_like(x)
        for k, i, h, t in product(range(n), range(b), range(hidden), range(taps)):
            if i >= t:
                made = (projection @ x[k, i]).view(2, taps, hidden // group)[side, t, h // group]
                true[k, i, h] += (base[side, t, h] + made) * given[k, i - t, h]
        torch.testing.assert_close(out, true)


@pytest.fixture
def selecting(tmp_path):
    """A DFlash2 drafter: the plain one and a selector over 5 candidates."""
    changes = {"architectures": ["DFlash2DraftModel"]}
    base = {"block_size": 6, "mask_token_id": 69, "target_layer_ids": [0, 2]}
    selector = {"selector_rank": 7, "selector_top_k": 5, "output_multiplier": 0.5, "final_logit_softcapping": 8.0}
    folder, drafter = folder_of(tmp_path, **changes, dflash_config=base | selector)
    torch.manual_seed(2)
    tables = {name: torch.randn(70, 7) for name in ("predecessor_codebook", "successor_codebook")}
    add(
        folder,
        **{f"candidate_selector.{name}": table for name, table in tables.items()},
        **{"candidate_selector.hidden_projection.weight": torch.randn(7, 32)},
    )
    return folder, drafter


def test_the_selector_walks_from_candidate_to_candidate(selecting, given):
    """Against the formula of SGLang's CandidateSelector, candidate by candidate."""
    (folder, drafter), (ends, taps, tokens) = selecting, given
    w = load_file(folder / "model.safetensors")
    with torch.no_grad():
        logits = drafter(taps[None], tokens[None], torch.tensor([AT]), ends.embed, ends.head)[0]
    found = Rival(parse_arm(f"a {folder}"), ends, torch.float32, "cpu")
    hidden = []
    found._selected = lambda logits, h, anchor: hidden.append(h) or logits.argmax(-1)
    found.propose(taps, tokens, AT, 6)
    states = hidden[0]  # [A, R, H]
    del found._selected
    proposals = found.propose(taps, tokens, AT, 6)
    for a, at in enumerate(AT):
        previous = int(tokens[at])
        for row in range(5):
            unary = torch.tanh(logits[a, row] * 0.5 / 8.0) * 8.0
            scores = {}
            for c in logits[a, row].topk(5).indices.tolist():
                state = w["candidate_selector.hidden_projection.weight"] @ states[a, row]
                pair = w["candidate_selector.predecessor_codebook"][previous] * state
                scores[c] = float(unary[c] + pair @ w["candidate_selector.successor_codebook"][c])
            previous = max(scores, key=scores.get)
            assert proposals[a, row] == previous


@pytest.mark.full
def test_the_selector_is_sglangs(selecting, given, monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    import torch._dynamo

    monkeypatch.setattr(torch._dynamo.config, "disable", True)
    from sglang.srt.models.dflash import CandidateSelector

    (folder, _), (ends, taps, tokens) = selecting, given
    w = load_file(folder / "model.safetensors")
    selector = CandidateSelector(hidden_size=32, vocab_size=70, state_rank=7, top_k=5)
    selector.load_state_dict({k.removeprefix("candidate_selector."): t for k, t in w.items() if "selector" in k})
    rival, seen = Rival(parse_arm(f"a {folder}"), ends, torch.float32, "cpu"), []
    walk = rival._selected
    rival._selected = lambda *args: seen.append(args) or walk(*args)
    proposals = rival.propose(taps, tokens, AT, 6)
    logits, hidden, anchor = seen[0]
    unary, ids = logits.topk(5)
    with torch.inference_mode():
        scores = selector.build_lattice(
            candidate_ids=ids, unary_logits=torch.tanh(unary * 0.5 / 8.0) * 8.0, hidden_states=hidden,
            anchor_token_ids=anchor,
        )  # fmt: skip
        path, _ = selector.sample_path(
            candidate_ids=ids, scores=scores, uniforms=torch.zeros(len(AT), 5), temperatures=torch.ones(len(AT)),
            greedy_mask=torch.ones(len(AT), dtype=torch.bool),
        )  # fmt: skip
    assert torch.equal(path, proposals)


@pytest.mark.parametrize("head", ["vanilla", "gated"])
def test_a_dspark_drafter_proposes_from_the_anchors_own_row_on_and_hears_the_token_before(tmp_path, given, head):
    ends, taps, tokens = given
    folder, _ = folder_of(tmp_path, architectures=["Qwen3DSparkModel"], markov_head_type=head)
    torch.manual_seed(4)
    w1, w2 = torch.randn(70, 3), torch.randn(70, 3)
    gate = {"markov_head__gate_proj__weight": torch.randn(3, 35), "markov_head__gate_proj__bias": torch.randn(3)}
    add(
        folder,
        markov_head__markov_w1__weight=w1,
        markov_head__markov_w2__weight=w2,
        **(gate if head == "gated" else {}),
    )
    rival, seen = Rival(parse_arm(f"a {folder}"), ends, torch.float32, "cpu"), []
    assert rival.block == 7  # six proposals and the anchor
    correct = rival._corrected
    rival._corrected = lambda *args: seen.append(args) or correct(*args)
    proposals = rival.propose(taps, tokens, AT, 7)
    logits, hidden, _ = seen[0]
    assert proposals.shape == (4, 6) and hidden.shape == (4, 6, 32)
    for a, at in enumerate(AT):
        previous = int(tokens[at])
        for row in range(6):
            latent = w1[previous]
            if head == "gated":
                x = torch.cat([hidden[a, row], latent])
                latent = latent * torch.sigmoid(
                    gate["markov_head__gate_proj__weight"] @ x + gate["markov_head__gate_proj__bias"]
                )
            previous = int((logits[a, row] + w2 @ latent).argmax())
            assert proposals[a, row] == previous


def test_the_anchors_own_row_can_be_told_not_to_propose(tmp_path):
    folder, _ = folder_of(tmp_path, architectures=["Qwen3DSparkModel"], sample_from_anchor=False)
    assert read_flash(folder).rows_spared == 0


def test_causality_is_as_sglang_decides_it(tmp_path):
    folder, _ = folder_of(
        tmp_path, is_causal=None, layer_types=["full_attention", "sliding_attention"], sliding_window=9
    )
    assert read_flash(folder).causal == (False, True)
    (tmp_path / "config.json").write_text(
        json.dumps(json.loads((tmp_path / "config.json").read_text()) | {"is_causal": True})
    )
    assert read_flash(folder).causal == (True, True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"quantization_config": {"quant_algo": "FP8"}}, "quantization_config is not implemented"),
        ({"attention_bias": True}, "attention_bias is not implemented"),
        ({"architectures": ["Qwen3DSparkModel"], "markov_head_type": "rnn"}, "markov_head_type 'rnn'"),
        ({"hidden_size": None}, "hidden_size is missing"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(tmp_path, changes, says):
    with pytest.raises(DSpineError, match=says):
        read_flash(folder_of(tmp_path, **changes)[0])


@pytest.mark.parametrize("words", ["fp8", "bridge=last"])
def test_settings_of_dspine_are_refused(tmp_path, given, words):
    with pytest.raises(DSpineError, match="are DSpine's"):
        Rival(parse_arm(f"a {folder_of(tmp_path)[0]} {words}"), given[0], torch.float32, "cpu")
