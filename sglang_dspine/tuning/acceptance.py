"""Conditional acceptance per position, from prompts of the user's own, served at the widest width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..widths.acceptance import from_histogram
from .failure import TuningError
from .server import ServerBench

# Published for a DSpine drafter of block 16 on recorded agent turns (window 8,192): 5.90 tokens a round at 16 rows and
# 4.49 at 8, conditional acceptance growing from 0.80 to 0.87 over positions 3 to 7. The first two positions and those
# past 7 were not published: they are set so that both means hold.
PUBLISHED = (0.828, 0.828, 0.80, 0.82, 0.84, 0.855, 0.87, *[0.895] * 8)
NAMED = {"published": PUBLISHED}


def read_profile(text: str) -> tuple[float, ...]:
    """A name of NAMED, or probabilities as in `0.8,0.85`. Raises TuningError."""
    if text in NAMED:
        return NAMED[text]
    try:
        profile = tuple(float(word) for word in text.split(","))
    except ValueError:
        profile = ()
    if not profile or any(not 0 <= p <= 1 for p in profile):
        raise TuningError(f"acceptance {text!r}: expected {' or '.join(NAMED)}, or probabilities as in 0.8,0.85")
    return profile


def read_prompts(path: Path) -> list[str]:
    """One prompt a line, or, with lines of only `---`, one between them. Raises TuningError for an empty file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TuningError(f"{path}: {error}; expected a text file with one prompt a line") from None
    parts = text.split("\n---\n") if "\n---\n" in text else text.splitlines()
    prompts = [part for part in parts if part.strip()]
    if not prompts:
        raise TuningError(f"{path}: no prompt in it")
    return prompts


def measure_acceptance(
    bench: ServerBench,
    prompts: Sequence[str],
    new_tokens: int = 256,
    together: int = 8,
    step: Callable[[], None] = lambda: None,
) -> tuple[float, ...]:
    """Serve the prompts at the widest width and count how many proposals each round accepted."""
    width = max(bench.widths())
    counts: Counter[int] = Counter()

    def ask(prompt: str) -> None:
        body = {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": new_tokens}}
        answer = bench.http.post("/generate", json=body, timeout=600)
        if answer.status_code != 200:
            raise TuningError(f"a prompt failed: {answer.text[:300]}")
        for accepted, rounds in enumerate(answer.json()["meta_info"].get("spec_correct_drafts_histogram", [])):
            counts[accepted] += rounds
        step()

    bench.tell(dspine_width=width)
    try:
        with ThreadPoolExecutor(together) as pool:
            list(pool.map(ask, prompts))
    finally:
        bench.tell(dspine_width=0)
    if not counts:
        raise TuningError("the server reports no spec_correct_drafts_histogram; nothing was drafted")
    return from_histogram([counts[k] for k in range(width)], width - 1)
