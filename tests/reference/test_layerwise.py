"""With one layer in memory at a time the reference computes the same."""

import torch

from sglang_dspine.checkpoint.examine import examine_headers
from sglang_dspine.checkpoint.lazy import LazyWeights
from sglang_dspine.config.parse import load_config
from sglang_dspine.reference import Drafter
from sglang_dspine.reference.layerwise import layerwise_states
from tests.support.golden import VECTORS, contexts


def test_the_golden_block_comes_out_layer_by_layer():
    for name in ("full", "window"):
        folder = VECTORS / name
        config, read = load_config(folder), LazyWeights(examine_headers(folder), torch.float32)
        asked = []

        def watched(*prefixes, read=read, asked=asked):
            asked.append(prefixes)
            return read(*prefixes)

        for case in contexts(name, "f32"):
            embed, head = (case_target(name)[key].float() for key in ("target.embed", "target.lm_head"))
            drafter = Drafter(config, read(""), embed, head)
            taps, anchor = case["target_features"][None], case["anchor"]
            lengths = torch.tensor([case.context_length])
            expected = drafter.forward(taps, anchor, lengths, config.block_size)
            h = embed[drafter.block_tokens(anchor, config.block_size)]
            codes = read.rows("transfer_codes", anchor.tolist())
            found = layerwise_states(h, taps, codes, lengths, config, watched)
            for a, b in zip(vars(found).values(), vars(expected).values(), strict=True):
                assert torch.equal(a, b)
            assert torch.allclose(found.block_hidden[0], case["block_hidden"], rtol=1e-4, atol=1e-4)
        one_by_one = [prefixes for prefixes in asked if prefixes[0].startswith("layers.")]
        assert one_by_one[: config.num_layers] == [(f"layers.{i}.",) for i in range(config.num_layers)]


def case_target(name):
    from safetensors.torch import load_file

    return load_file(VECTORS / name / "vectors.safetensors")


def test_index_tensors_are_made_on_the_default_device():
    """What lets the same code run on a GPU; a tensor of another device would not mix with these."""
    folder = VECTORS / "window"
    config = load_config(folder)
    read = LazyWeights(examine_headers(folder), torch.bfloat16, "meta")
    taps = torch.empty(2, 5, len(config.target_layer_ids) * config.hidden_size, dtype=torch.bfloat16, device="meta")
    h = torch.empty(2, 16, config.hidden_size, dtype=torch.bfloat16, device="meta")
    with torch.device("meta"):
        lengths, codes = torch.tensor([5, 3]), torch.empty(2, config.transfer_rank, dtype=torch.bfloat16)
        states = layerwise_states(h, taps, codes, lengths, config, read)
    assert states.block_hidden.is_meta and states.block_hidden.shape == h.shape
