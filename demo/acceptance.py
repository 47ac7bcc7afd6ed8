"""Acceptance of the demo's drafters on the same anchors: `python -m demo.acceptance OUT [--dflash FOLDER]`.

Held-out prompts continued greedily by the target, and the held-out modules as they are written; the reference drafts
behind evenly spread anchors (`sglang-dspine accept`). Writes OUT/demo-acceptance.csv, OUT/greedy and OUT/modules.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from sglang_dspine.acceptance.arm import Arm
from sglang_dspine.acceptance.count import Lengths, ratio
from sglang_dspine.acceptance.report import write_report
from sglang_dspine.acceptance.run import Measured, Settings, run
from sglang_dspine.acceptance.store import Store
from sglang_dspine.evidence.table import markdown, write_csv

from .hybrid import generate, load_target
from .text import held_out_prompts, sources, stdlib_path

HERE = Path(__file__).parent
PROMPT = 256
# comparison: arm over baseline
PAIRS = {
    "DSpine / DFlash-style, 16 rows": ("dspine", "dflash"),
    "DSpine / DFlash-style, 8 rows": ("dspine-8", "dflash-8"),
    "bridge on the last layer only / full bridge": ("last", "dspine"),
    "bridge zeroed / full bridge": ("zeroed", "dspine"),
    "FP8 / BF16": ("fp8", "dspine"),
    "window 128 / trained window 512": ("narrow", "dspine"),
    "8 rows / 16 rows": ("dspine-8", "dspine"),
}


def arms(draft: Path, dflash: Path | None) -> tuple[Arm, ...]:
    full = Arm("dspine", draft)
    found = [
        full,
        replace(full, name="dspine-8", width=8),
        replace(full, name="last", bridge="last"),
        replace(full, name="zeroed", bridge="zeroed"),
        replace(full, name="fp8", fp8=True),
        replace(full, name="narrow", window=128),
    ]
    if dflash is not None:
        found += [Arm("dflash", dflash), Arm("dflash-8", dflash, width=8)]
    return tuple(found)


def write_prompts(path: Path, stdlib: Path, count: int) -> Path:
    """`count` held-out prompts as token ids, one conversation each."""
    prompts = held_out_prompts(stdlib, count, PROMPT, seed=2).tolist()
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in prompts))
    return path


def continue_together(settings: Settings, count: int) -> None:
    """Let the target write behind all prompts at once; the tool would do it one by one."""
    store = Store(settings.cache, settings.target, settings.dtype, ())
    prompts = [json.loads(line)["input_ids"] for line in settings.texts[0].read_text().splitlines()]
    if all(store.load_text(ids, count) for ids in prompts):
        return
    model = load_target(Path(settings.target), settings.device)
    whole = generate(model, torch.tensor(prompts, device=settings.device), count)
    for ids, text in zip(prompts, whole.tolist(), strict=True):
        store.save_text(ids, count, text)


def write_modules(path: Path, stdlib: Path, length: int) -> Path:
    """The beginning of every held-out module (tests left out), as token ids."""
    texts = [text.encode()[:length] for name, text in sources(stdlib, held_out=True) if "test" not in str(name)]
    path.write_text("".join(json.dumps({"input_ids": list(text)}) + "\n" for text in texts))
    return path


def comparisons(name: str, measured: Measured) -> list[dict[str, object]]:
    """Rows of the table, for the pairs whose arms were measured."""
    rows: list[dict[str, object]] = []
    for comparison, (arm, base) in PAIRS.items():
        lengths: dict[str, Lengths] = measured.lengths
        found = ratio(lengths[arm], lengths[base]) if arm in lengths and base in lengths else None
        if found is not None:
            numbers = {key: f"{getattr(found, field):.4f}" for key, field in NUMBERS.items()}
            counts = {"sequences": found.count, "anchors": measured.anchors}
            rows.append({"comparison": f"{comparison} ({name})", **numbers, **counts})
    return rows


NUMBERS = {"ratio": "value", "low": "low", "high": "high"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pair", type=Path, default=HERE, help="folder with target/ and draft/")
    parser.add_argument("--dflash", type=Path, help="what demo.train_dflash wrote")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=160, help="of each greedy continuation")
    parser.add_argument("--length", type=int, default=1536, help="bytes of each held-out module")
    parser.add_argument("--anchors", type=int, default=48, help="per text")
    parser.add_argument("--stdlib", type=Path, default=stdlib_path())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    texts = {
        "greedy": (write_prompts(args.out / "prompts.jsonl", args.stdlib, args.prompts), args.tokens),
        "modules": (write_modules(args.out / "modules.jsonl", args.stdlib, args.length), 0),
    }
    rows: list[dict[str, object]] = []
    for name, (path, new_tokens) in texts.items():
        settings = Settings(
            str(args.pair / "target"), arms(args.pair / "draft", args.dflash), (path,), args.out / name,
            args.out / "captures", args.anchors, new_tokens=new_tokens, device=args.device,
        )  # fmt: skip
        if new_tokens:
            continue_together(settings, new_tokens)
        measured = run(settings, lambda what, done, total: print(f"{what} {done}/{total}", flush=True))
        write_report(measured)
        rows += comparisons(name, measured)
    write_csv(args.out / "demo-acceptance.csv", rows)
    print(markdown(list(rows[0]), [list(row.values()) for row in rows]))


if __name__ == "__main__":
    main()
