"""What is rendered parses back to the same numbers."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.config import parse_config, render_config
from tests.support.checkpoints import TINY

KINDS = st.sampled_from(["full_attention", "sliding_attention"])


@st.composite
def configs(draw):
    kinds = tuple(draw(st.lists(KINDS, min_size=1, max_size=5)))
    taps = draw(st.sets(st.integers(0, 40), min_size=1, max_size=5))
    vocab = draw(st.integers(2, 300_000))
    hidden = draw(st.integers(2, 8192))
    kv = draw(st.integers(1, 8))
    return replace(
        TINY,
        hidden_size=hidden,
        num_layers=len(kinds),
        layer_types=kinds,
        num_kv_heads=kv,
        num_heads=kv * draw(st.integers(1, 8)),
        head_dim=2 * draw(st.integers(1, 128)),
        sliding_window=draw(st.integers(1, 9999)) if "sliding_attention" in kinds else None,
        vocab_size=vocab,
        mask_token_id=draw(st.integers(0, vocab - 1)),
        top_k=draw(st.integers(1, min(vocab, 64))),
        transfer_rank=draw(st.integers(1, min(hidden, vocab - 1))),
        block_size=draw(st.integers(2, 32)),
        target_layer_ids=tuple(sorted(taps)),
        num_target_layers=draw(st.none() | st.integers(41, 80)),
    )


@settings(max_examples=60, deadline=None)
@given(configs())
def test_rendering_and_parsing_give_the_same_config(config):
    assert parse_config(render_config(config), "config.json") == config
