"""Train a DFlash-style drafter on the data and budget of demo/draft: `python -m demo.train_dflash OUT`.

Writes OUT/config.json and OUT/model.safetensors (2.3 MB), which SGLang serves with `--speculative-algorithm DFLASH`.
The budget is counted in steps, so that a slower machine trains as much: 1,972 steps of 32 sequences with 48 anchors,
on 12,288 prompts that the target continues, which took demo/draft 188 s of one H200. On a CPU it is no good: about 90
core hours, extrapolated from timed steps.
"""

import argparse
import time
from pathlib import Path

import torch

from . import gdn
from .clock import Clock
from .dflash import FlashDrafter, flash_loss, save_flash
from .distil import make_material, observe, train_drafter
from .hybrid import MAX_LENGTH, generate, load_target
from .rounds import accepted_lengths, flat, mean
from .text import Corpus, held_out_prompts, stdlib_path

STEPS, GENERATED = 1972, 3  # of demo/draft: steps of its training, times two sets of rows were generated
FOREVER = 1e9


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="new folder for the drafter")
    parser.add_argument("--target", type=Path, default=Path(__file__).parent / "target")
    parser.add_argument("--stdlib", type=Path, default=stdlib_path(), help="library folder to read")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--generated", type=int, default=GENERATED, help="times that rows are generated")
    parser.add_argument("--rows", type=int, default=2048, help="generated at once")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--anchors", type=int, default=48, help="per sequence")
    parser.add_argument("--prompts", type=int, default=128, help="held-out prompts of the first look at the end")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args, start = arguments(), time.monotonic()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    gdn.install()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:5.0f}s] {line}", flush=True)

    model = load_target(args.target, args.device)
    quarter = args.length // 4
    sizes = [(3 * quarter, quarter), (quarter, quarter)]
    corpus = Corpus.read(args.stdlib, args.device)
    material = make_material(model, corpus, Clock(FOREVER, args.generated), args.rows, sizes, log)
    drafter = FlashDrafter().to(args.device)
    log(f"drafter: {sum(p.numel() for p in drafter.parameters()):,} parameters")
    clock = Clock(FOREVER, args.steps)
    train_drafter(drafter, model, material, clock, args.batch, args.anchors, log, loss_of=flash_loss)
    save_flash(drafter, args.out, MAX_LENGTH)
    prompts = held_out_prompts(args.stdlib, args.prompts, 256, seed=1).to(args.device)
    log(first_look(drafter.eval(), model, generate(model, prompts, 192)))


def first_look(drafter: FlashDrafter, model, text: torch.Tensor) -> str:
    """Accepted length on greedy text [B, 256 + count]; `python -m demo.acceptance` is the measurement."""
    taps, _ = observe(model, text, drafter.s.taps)
    embed, head = model.model.embed_tokens.weight, model.lm_head.weight

    def propose(row: torch.Tensor, anchor_at: torch.Tensor) -> torch.Tensor:
        return drafter(taps[row], text[row], anchor_at[:, None], embed, head)[:, 0].argmax(-1)

    lengths = accepted_lengths(propose, text, 256, drafter.s.block)
    return f"accepted length {mean(lengths):.2f} over {len(list(flat(lengths)))} rounds"


if __name__ == "__main__":
    main()
