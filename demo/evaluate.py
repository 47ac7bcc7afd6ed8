"""Accepted length of the pair on held-out code: `python -m demo.evaluate`, CPU, float32.

The target (transformers) writes greedy text after each prompt; the package's reference drafter proposes a
block at every anchor in turn; the proposals that agree with the text, and the bonus, are the round's length.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor
from transformers import Qwen3_5ForCausalLM

from sglang_dspine.checkpoint import load_checkpoint
from sglang_dspine.reference import Drafter

from .distil import observe
from .hybrid import generate, load_target
from .rounds import Propose, accepted_lengths, flat, mean, repeated
from .text import held_out_prompts, stdlib_path

HERE = Path(__file__).parent


def reference(folder: Path, model: Qwen3_5ForCausalLM, bridge: bool = True) -> Drafter:
    """The reference drafter on the stored weights, with every write zero if not `bridge`."""
    config, weights = load_checkpoint(folder, torch.float32)
    if not bridge:
        weights |= {k: torch.zeros_like(w) for k, w in weights.items() if k.startswith("injection.writes.")}
    return Drafter(config, weights, model.model.embed_tokens.weight, model.lm_head.weight)


def serving_form(drafter: Drafter, tokens: Tensor, taps: Tensor) -> Propose:
    """Proposals of the reference. tokens [B, L], taps [B, L, taps·H]: only what lies before an anchor is used."""

    def propose(text: Tensor, anchor_at: Tensor) -> Tensor:
        anchor, longest = tokens[text, anchor_at], int(anchor_at.max())
        return drafter.propose(taps[text, :longest], anchor, lengths=anchor_at).tokens

    return propose


@torch.no_grad()
def measure(
    pair: Path, prompts: Tensor, count: int, bridge: bool = True, text: Tensor | None = None
) -> tuple[list[list[int]], Tensor, int]:
    """Accepted lengths per prompt, the text [B, P + count], and how many of its tokens are no top-1."""
    model = load_target(pair / "target")
    drafter = reference(pair / "draft", model, bridge)
    text = generate(model, prompts, count) if text is None else text
    taps, logits = observe(model, text, drafter.config.target_layer_ids)
    written = prompts.shape[1]
    differ = int((logits[:, written - 1 : -1].argmax(-1) != text[:, written:]).sum())
    lengths = accepted_lengths(serving_form(drafter, text, taps), text, written, drafter.config.block_size)
    return lengths, text, differ


def histogram(lengths: list[list[int]], block: int = 16) -> str:
    counts = torch.bincount(torch.tensor(list(flat(lengths))), minlength=block + 1)[1:]
    return " ".join(f"{100 * c / counts.sum():.0f}" for c in counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", type=Path, default=HERE, help="folder with target/ and draft/")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--prompt-bytes", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--stdlib", type=Path, default=stdlib_path())
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.monotonic()
    prompts = held_out_prompts(args.stdlib, args.prompts, args.prompt_bytes, args.seed)
    lengths, text, differ = measure(args.pair, prompts, args.tokens)
    zeroed, _, _ = measure(args.pair, prompts, args.tokens, bridge=False, text=text)
    loops = [repeated(row[args.prompt_bytes :]) for row in text]
    fresh = [row for row, share in zip(lengths, loops, strict=True) if share < 0.1]
    written = args.prompts * args.tokens
    print(f"{args.prompts} held-out prompts of {args.prompt_bytes} bytes, {args.tokens} greedy tokens each")
    print(f"accepted length {mean(lengths):.2f} over {len(list(flat(lengths)))} rounds (bonus included)")
    print(f"accepted length {mean(zeroed):.2f} with the bridge zeroed")
    print(f"accepted length {mean(fresh):.2f} on the {len(fresh)} texts with repetition below 10 %")
    print(f"repetition {100 * sum(loops) / len(loops):.1f} % of 32-grams occurred before in the same text")
    print(f"rounds of length 1 … 16, %: {histogram(lengths)}")
    print(f"{differ} of {written} tokens differ from a single forward's top-1 ({time.monotonic() - start:.0f} s)")


if __name__ == "__main__":
    main()
