"""Train the demo pair: `python -m demo.train`. Needs torch and transformers; a GPU makes it minutes."""

import argparse
import time
from pathlib import Path

import torch
from transformers import Qwen3_5ForCausalLM

from . import gdn
from .clock import Clock
from .distil import make_material, observe, train_drafter
from .drafter import Drafter, save_drafter
from .hybrid import (
    MAX_LENGTH,
    Log,
    bits_per_byte,
    generate,
    load_target,
    new_target,
    save_target,
    train_target,
)
from .rounds import accepted_lengths, flat, mean, repeated, training_form, without_bridge
from .text import Corpus, held_out_prompts, stdlib_path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="writes target/ and draft/ there")
    parser.add_argument("--stdlib", type=Path, default=stdlib_path(), help="library folder to read")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--target-seconds", type=float, default=220)
    parser.add_argument("--generate-seconds", type=float, default=35)
    parser.add_argument("--drafter-seconds", type=float, default=200)
    parser.add_argument("--steps", type=int, help="stop each stage after so many steps, however fast")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--anchors", type=int, default=48, help="per sequence of the drafter's training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-target", action="store_true", help="train only a drafter for OUT/target")
    return parser.parse_args()


def report(model: Qwen3_5ForCausalLM, drafter: Drafter, stdlib: Path, log: Log, count: int) -> None:
    """A first look on held-out prompts; evaluate.py is the measurement."""
    prompts = held_out_prompts(stdlib, count, 256, seed=1).to(model.device)
    text = generate(model, prompts, 192)
    log("a greedy continuation:\n" + bytes(t for t in text[0].tolist() if t < 256).decode(errors="replace"))
    loops = sum(repeated(row[256:]) for row in text.cpu()) / count
    taps, _ = observe(model, text, drafter.s.taps)
    for name in ("bridge", "bridge zeroed"):
        lengths = accepted_lengths(training_form(drafter, model, text, taps), text, 256, drafter.s.block)
        rounds = len(list(flat(lengths)))
        log(f"{name}: accepted length {mean(lengths):.2f} over {rounds} rounds, loops {loops:.2f}")
        drafter = without_bridge(drafter)


def main() -> None:
    args, start = arguments(), time.monotonic()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    gdn.install()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:5.0f}s] {line}", flush=True)

    corpus = Corpus.read(args.stdlib, args.device)
    log(f"text: {[len(s) for s in corpus.streams]} tokens of modules, tests, chat turns from {args.stdlib.name}")
    if args.keep_target:
        model = load_target(args.out / "target", args.device)
    else:
        model = new_target().to(args.device)
        log(f"target: {sum(p.numel() for p in model.parameters()):,} parameters")
        clock = Clock(args.target_seconds, args.steps)
        train_target(model.train(), corpus, clock, args.batch, args.length, log)
        save_target(model, args.out / "target")
    model.eval()
    seen, unseen = (
        corpus.rows(16, args.length),
        held_out_prompts(args.stdlib, 16, args.length).to(args.device),
    )
    log(f"bits per byte: {bits_per_byte(model, seen):.3f} training, {bits_per_byte(model, unseen):.3f} held out")

    quarter = args.length // 4
    sizes = [(3 * quarter, quarter), (quarter, quarter)]
    rows = 32 * args.batch if args.device == "cuda" else args.batch
    material = make_material(model, corpus, Clock(args.generate_seconds, args.steps), rows, sizes, log)
    drafter = Drafter().to(args.device)
    log(f"drafter: {sum(p.numel() for p in drafter.parameters()):,} parameters")
    clock = Clock(args.drafter_seconds, args.steps)
    train_drafter(drafter, model, material, clock, args.batch // 2, args.anchors, log)
    save_drafter(drafter, args.out / "draft", MAX_LENGTH)
    report(model, drafter.eval(), args.stdlib, log, 4 if args.steps else 128)


if __name__ == "__main__":
    main()
