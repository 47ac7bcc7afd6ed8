"""The training form, many anchors at once, is the reference drafter at each anchor."""

import pytest
import torch

from demo.drafter import Drafter, Shape, draft_config, load_drafter, save_drafter
from sglang_dspine.checkpoint import load_checkpoint
from sglang_dspine.config import DraftConfig
from tests.reference.cases import CASES, config_of, drafter_of, random_inputs, tensors, weights_of

ANCHORS = torch.tensor([[3, 30, 17], [21, 1, 24]])


def shape_of(c: DraftConfig) -> Shape:
    return Shape(
        hidden=c.hidden_size,
        intermediate=c.intermediate_size,
        layers=c.num_layers,
        heads=c.num_heads,
        kv_heads=c.num_kv_heads,
        head_dim=c.head_dim,
        rank=c.transfer_rank,
        message=c.message_size,
        top_k=c.top_k,
        block=c.block_size,
        window=c.sliding_window or 10**6,
        theta=c.rope_theta,
        eps=c.rms_norm_eps,
        taps=tuple(c.target_layer_ids),
        vocab=c.vocab_size,
        mask=c.mask_token_id,
    )


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_every_anchor_gets_what_the_reference_gives_it(case):
    trained = Drafter(shape_of(config_of(case)))
    trained.load_state_dict(weights_of(case, torch.float32), strict=False)
    reference = drafter_of(case, torch.float32)
    embed, head = (tensors(case, "vectors")[f"target.{name}"] for name in ("embed", "lm_head"))
    taps, _ = random_inputs(case, 7, blocks=2, span=48, dtype=torch.float32)
    tokens = torch.randint(config_of(case).vocab_size, (2, 48), generator=torch.Generator().manual_seed(7))

    drafted = trained(taps, tokens, ANCHORS, embed, head)
    path = trained.walk(drafted, tokens.gather(1, ANCHORS), head)
    for row, column in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        at = int(ANCHORS[row, column])
        true = reference.propose(taps[row : row + 1, :at], tokens[row, at : at + 1])
        assert torch.equal(path[row, column], true.tokens[0])
        close = {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(drafted.before[row, column], true.pre_injection[0, 1:], **close)
        torch.testing.assert_close(drafted.unary[row, column], true.block_hidden[0, 1:] @ head.T, **close)
        previous = torch.cat([tokens[row, at : at + 1], true.tokens[0, :-1]])
        scores = trained.transition(drafted, previous.expand(2, 3, -1), head)[row, column]
        chosen = true.scores[0].gather(1, place(true)[:, None, None].expand(-1, 1, true.scores.shape[-1]))[:, 0]
        torch.testing.assert_close(scores.gather(1, true.candidates[0]), chosen, rtol=1e-3, atol=1e-3)


def place(proposal) -> torch.Tensor:
    """Where each row's predecessor stands among the candidates of the row before; any place for row 1."""
    return torch.cat([torch.zeros(1, dtype=torch.long), proposal.choices[0, :-1]])


def test_a_saved_drafter_passes_the_checkpoint_reader_and_comes_back(tmp_path):
    drafter = Drafter()
    with torch.no_grad():
        for p in drafter.parameters():
            p.copy_(p.bfloat16())
    save_drafter(drafter, tmp_path, 512)
    config, _ = load_checkpoint(tmp_path)
    assert config.num_target_layers == 8 and config.sliding_window == drafter.s.window
    assert draft_config(drafter.s, 512)["is_causal"] is True
    again = load_drafter(tmp_path).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in drafter.state_dict().items())
