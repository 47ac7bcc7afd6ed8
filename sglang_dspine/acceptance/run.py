"""Capture, draft, count. What is done is on disk: a run that was killed goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..errors import DSpineError
from ..evidence.lines import append_line
from .anchor import EDGES, anchors_of, bucket_of
from .arm import Arm
from .capture import Captured, Target
from .count import Lengths, accepted_lengths, truth_behind
from .draft import jobs_of, needs_of, open_proposer
from .sequence import Sequence as Text
from .sequence import read_sequences
from .store import Store, dtype_named, identity

Progress = Callable[[str, int, int], None]  # what, done, of how many


@dataclass(frozen=True)
class Settings:
    target: str
    arms: tuple[Arm, ...]
    texts: tuple[Path, ...]
    folder: Path  # counts and reports
    cache: Path  # captures
    per_bucket: int = 32  # anchors a sequence and context length
    edges: tuple[int, ...] = EDGES
    against: str = "recorded"  # or "argmax": the target's own best tokens
    new_tokens: int = 0  # the target continues what has no answer by so many greedy tokens
    longest: int = 32768
    dtype: str = "float32"
    device: str = "cpu"


@dataclass(frozen=True)
class Measured:
    settings: Settings
    lengths: dict[str, Lengths]  # by arm, in the order given
    sequences: int  # conversations with at least one anchor
    anchors: int
    header: dict[str, Any] = field(default_factory=dict)


def run(settings: Settings, progress: Progress = lambda what, done, total: None) -> Measured:
    """Raises DSpineError when no sequence has room for a block, or a drafter is of another target."""
    from transformers import AutoTokenizer

    settings.folder.mkdir(parents=True, exist_ok=True)
    needs = {arm.name: needs_of(arm) for arm in settings.arms}
    taps = tuple(sorted({tap for need in needs.values() for tap in need.taps}))
    store = Store(settings.cache, settings.target, settings.dtype, taps)
    texts = read_sequences(
        settings.texts,
        AutoTokenizer.from_pretrained(settings.target),
        settings.longest,
        written=not settings.new_tokens,
    )
    target = _OnDemand(settings)
    texts = _continued(texts, settings, store, target, progress)
    widest = max(need.width for need in needs.values())
    at = {i: anchors_of(text, widest, settings.per_bucket, settings.edges) for i, text in enumerate(texts)}
    chosen = [(text, at[i]) for i, text in enumerate(texts) if at[i]]
    if not chosen:
        raise DSpineError(
            f"none of {len(texts)} sequences has an answer of {widest} tokens within {settings.edges[-1]}; "
            "expected recorded answers (assistant messages) or plain text, or --continue for prompts alone"
        )
    _capture(chosen, settings, store, target, taps, progress)
    target.forget()
    lengths = _draft(chosen, settings, store, taps, widest, progress)
    header = {"taps": taps, "target": settings.target, "fingerprint": identity(settings.target)}
    names = {text.name for text, _ in chosen}
    return Measured(settings, lengths, len(names), sum(len(places) for _, places in chosen), header)


class _OnDemand:
    """The target, loaded when something is missing on disk."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._target: Target | None = None

    def get(self) -> Target:
        if self._target is None:
            self._target = Target(self.settings.target, self.settings.dtype, self.settings.device)
        return self._target

    def forget(self) -> None:
        self._target = None
        if self.settings.device != "cpu":
            torch.cuda.empty_cache()


def _continued(
    texts: list[Text], settings: Settings, store: Store, target: _OnDemand, progress: Progress
) -> list[Text]:
    if not settings.new_tokens:
        return texts
    found = []
    for i, text in enumerate(texts):
        if not text.spans:
            whole = store.load_text(text.ids, settings.new_tokens)
            if whole is None:
                whole = target.get().continued(text.ids, settings.new_tokens)
                store.save_text(text.ids, settings.new_tokens, whole)
            text = Text(text.name, whole, ((len(text.ids), len(whole)),))
        found.append(text)
        progress("target writes", i + 1, len(texts))
    return found


def _capture(
    chosen: Sequence[tuple[Text, list[int]]],
    settings: Settings,
    store: Store,
    target: _OnDemand,
    taps: tuple[int, ...],
    progress: Progress,
) -> None:
    if not store.ends_path.exists():
        store.save_ends(target.get().ends)
    for i, (text, _) in enumerate(chosen):
        if not store.has(text.ids):
            store.save(text.ids, target.get().capture(text.ids, taps))
        progress("captures", i + 1, len(chosen))


def _draft(
    chosen: Sequence[tuple[Text, list[int]]],
    settings: Settings,
    store: Store,
    taps: tuple[int, ...],
    widest: int,
    progress: Progress,
) -> dict[str, Lengths]:
    """Accepted lengths of every arm, from what counts.jsonl holds and what is drafted now."""
    book = Book(settings.folder / "counts.jsonl")
    ends, dtype = store.load_ends(), dtype_named(settings.dtype)
    found = {arm.name: Lengths(needs_of(arm).width) for arm in settings.arms}
    for job, arms in jobs_of(settings.arms).items():
        needs, proposer = needs_of(job), None
        columns = [taps.index(tap) for tap in needs.taps]
        weights = identity(str(job.folder))  # the folder may have been trained on since
        for i, (text, at) in enumerate(chosen):
            key = {
                "draft": job.words,
                "weights": weights,
                "from": str(store.path(text.ids).name),
                "at": at,
                "against": settings.against,
            }
            lengths = book.find(key)
            if lengths is None:
                proposer = proposer or open_proposer(job, ends, dtype, settings.device)
                captured = _captured(store, text, settings, taps)
                proposals = proposer.propose(captured.taps[:, columns].flatten(1), captured.tokens, at, needs.width)
                truth = truth_behind(captured.tokens, captured.best, at, needs.width, settings.against)
                lengths = accepted_lengths(proposals, truth).tolist()
                book.add(key, lengths)
            for arm in arms:
                for place, length in zip(at, lengths, strict=True):
                    bucket = bucket_of(place, settings.edges)
                    assert bucket is not None  # anchors_of chose it so
                    found[arm.name].add(text.name, bucket, [length])
            progress(" ".join(arm.name for arm in arms), i + 1, len(chosen))
    return found


def _captured(store: Store, text: Text, settings: Settings, taps: tuple[int, ...]) -> Captured:
    captured = store.load(text.ids)
    if captured is None:
        raise DSpineError(f"{store.path(text.ids)} was damaged and is removed; run again, it will be captured anew")
    return captured


class Book:
    """Accepted lengths done so far, one JSON line a draft and sequence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, list[int]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    value = json.loads(line)
                    self._known[_key(value["key"])] = value["lengths"]
                except (ValueError, KeyError):
                    continue  # the last line of a run that was killed

    def find(self, key: dict[str, Any]) -> list[int] | None:
        return self._known.get(_key(key))

    def add(self, key: dict[str, Any], lengths: list[int]) -> None:
        self._known[_key(key)] = lengths
        append_line(self.path, json.dumps({"key": key, "lengths": lengths}))


def _key(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)
