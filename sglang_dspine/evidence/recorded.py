"""Conversations from OpenAI-style JSONL: each line one request, or one conversation with its answers.

A line is an object with `messages` (and, as a request has them, `tools`, `chat_template_kwargs`), with `prompt` or
`text`, or with `input_ids`; or a bare string. A recorded answer inside `messages` ends a turn: the turn asks for it
again, with everything before it as the prompt. Lines that share an `id` or `conversation` are turns of one
conversation and are played one after the other, so that a turn finds its predecessor in the prefix cache.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DSpineError

PASSED_ON = ("tools", "chat_template_kwargs", "reasoning_effort")  # what the chat template reads beside the messages


@dataclass(frozen=True)
class Prompt:
    """One turn before it is tokenised: one of the first three forms."""

    messages: list[dict[str, Any]] | None = None
    text: str | None = None
    ids: list[int] | None = None
    template: dict[str, Any] = field(default_factory=dict)  # for the chat template
    answer: dict[str, Any] | None = None  # the recorded message that followed, if one did


@dataclass(frozen=True)
class Recorded:
    """A conversation: turns whose prompts usually begin alike."""

    name: str
    turns: tuple[Prompt, ...]


def read_recorded(path: Path) -> list[Recorded]:
    """Conversations of a file. Raises DSpineError naming the line that is no request."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DSpineError(f"{path}: {error}; expected JSONL, one request or conversation a line") from error
    found: dict[str, list[Prompt]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise DSpineError(f"{where}: not JSON ({error})") from error
        name = value.get("conversation", value.get("id")) if isinstance(value, dict) else None
        found.setdefault(f"line {number}" if name is None else str(name), []).extend(_turns(value, where))
    if not found:
        raise DSpineError(f"{path}: no requests; expected one a line")
    return [Recorded(name, tuple(turns)) for name, turns in found.items()]


def _turns(value: Any, where: str) -> list[Prompt]:
    if isinstance(value, str):
        return [Prompt(text=value)]
    if isinstance(value, dict):
        if isinstance(value.get("body"), dict):  # a line of OpenAI's batch API
            value = value["body"]
        if "messages" in value:
            return _chat(value, where)
        for key in ("input_ids", "prompt", "text"):
            prompt = value.get(key)
            if isinstance(prompt, str):
                return [Prompt(text=prompt)]
            if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
                return [Prompt(ids=prompt)]
    raise DSpineError(f"{where}: expected an object with messages, prompt, text or input_ids, or a string")


def _chat(value: dict[str, Any], where: str) -> list[Prompt]:
    messages = value["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) and "role" in m for m in messages):
        raise DSpineError(f"{where}: messages: expected a list of objects with a role")
    template = {key: value[key] for key in PASSED_ON if value.get(key) is not None}
    ends = [i for i, message in enumerate(messages) if message["role"] == "assistant" and i > 0]
    turns = [Prompt(messages=messages[:end], template=template, answer=messages[end]) for end in ends]
    if messages and messages[-1]["role"] != "assistant":
        turns.append(Prompt(messages=messages, template=template))
    if not turns:
        raise DSpineError(f"{where}: messages: expected something to answer, found {len(messages)} messages")
    return turns
