"""Recorded text as token ids, and which of them were written by whom the drafter imitates."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DSpineError
from ..evidence.recorded import Prompt, Recorded, read_recorded

FIRST = 8  # of a plain text: no drafter has anything to go by before


@dataclass(frozen=True)
class Sequence:
    """S tokens. Spans [start, end) are answers: blocks are drafted inside them."""

    name: str  # of the conversation: what the interval draws again
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]  # empty: a prompt that the target is to continue


def read_sequences(paths: SequenceOf[Path], tokenizer: Any, longest: int, written: bool = True) -> list[Sequence]:
    """Sequences of files: *.jsonl as conversations, anything else as one plain text.

    tokenizer: a transformers tokenizer, with a chat template where conversations are read.
    longest: tokens a sequence may have; what lies beyond is left out.
    written: whether a line of plain text is an answer itself, or a prompt that the target is to continue.
    """
    found: list[Sequence] = []
    for path in paths:
        if path.suffix == ".jsonl":
            for recorded in read_recorded(path):
                found += _conversation(recorded, tokenizer, longest, path, written)
        else:
            found.append(_plain(path.name, _read(path), tokenizer, longest))
    if not found:
        raise DSpineError(f"{', '.join(map(str, paths))}: no text; expected conversations (JSONL) or plain text")
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DSpineError(f"{path}: {error}; expected plain text, or conversations in a file named *.jsonl") from error


def _plain(name: str, text: str, tokenizer: Any, longest: int) -> Sequence:
    ids = tuple(tokenizer(text)["input_ids"][:longest])
    return Sequence(name, ids, ((FIRST, len(ids)),) if len(ids) > FIRST else ())


def _conversation(recorded: Recorded, tokenizer: Any, longest: int, path: Path, written: bool) -> list[Sequence]:
    """Turns in one sequence while each begins with the one before; else, as with templates that drop earlier
    reasoning, a sequence a turn. All carry the conversation's name."""
    name = f"{path.name}:{recorded.name}"
    merged: list[Sequence] = []
    for turn in recorded.turns:
        ids, span = _turn(turn, tokenizer, name, written)
        if merged and merged[-1].ids == ids[: len(merged[-1].ids)]:
            merged[-1] = Sequence(name, ids, (*merged[-1].spans, *([span] if span else [])))
        else:
            merged.append(Sequence(name, ids, (span,) if span else ()))
    return [_cut(sequence, longest) for sequence in merged]


def _turn(turn: Prompt, tokenizer: Any, name: str, written: bool) -> tuple[tuple[int, ...], tuple[int, int] | None]:
    if turn.messages is None:
        ids = tuple(turn.ids if turn.ids is not None else tokenizer(turn.text)["input_ids"])
        return ids, (FIRST, len(ids)) if written and len(ids) > FIRST else None
    prompt = _template(tokenizer, turn.messages, turn.template, name, add_generation_prompt=True)
    if turn.answer is None:
        return prompt, None
    whole = _template(tokenizer, [*turn.messages, turn.answer], turn.template, name)
    start = len(prompt)
    if whole[:start] != prompt:  # a template that opens the answer otherwise: from where the two part
        start = next((i for i, (a, b) in enumerate(zip(whole, prompt, strict=False)) if a != b), min(len(whole), start))
    return whole, (start, len(whole))


def _template(tokenizer: Any, messages: list[dict], settings: dict, name: str, **extra: Any) -> tuple[int, ...]:
    given = {key: value for key, value in settings.items() if key == "tools"} | settings.get("chat_template_kwargs", {})
    try:
        made = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **given, **extra)
    except (ValueError, TypeError) as error:
        raise DSpineError(f"{name}: the tokenizer's chat template failed: {error}") from error
    return tuple(made["input_ids"])


def _cut(sequence: Sequence, longest: int) -> Sequence:
    spans = tuple((start, min(end, longest)) for start, end in sequence.spans if start < longest)
    return Sequence(sequence.name, sequence.ids[:longest], spans)
