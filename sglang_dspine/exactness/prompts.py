"""Prompt files: one prompt a line, as text or (`*.jsonl`) as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.endpoint import Endpoint

Prompt = str | list[int]  # text, or token ids


def read_prompts(path: Path) -> list[Prompt]:
    """Prompts of a file. JSONL lines are a string, a list of ids, or an object with text, prompt or input_ids."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DSpineError(f"{path}: {error}; expected a text file with one prompt a line") from error
    is_json = path.suffix == ".jsonl"
    prompts = [
        _from_json(line, f"{path}:{number}") if is_json else line
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not prompts:
        raise DSpineError(f"{path}: no prompts; expected one a line")
    return prompts


def to_ids(prompts: list[Prompt], endpoint: Endpoint) -> list[list[int]]:
    """Token ids of every prompt, by the server's own tokenizer."""
    ids = endpoint.map(lambda p: endpoint.tokenize(p) if isinstance(p, str) else p, prompts)
    for prompt, tokens in zip(prompts, ids, strict=True):
        if not tokens:
            raise DSpineError(f"prompt {prompt!r} has no tokens; expected at least one")
    return ids


def _from_json(line: str, where: str) -> Prompt:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DSpineError(f"{where}: not JSON ({error}); text prompts belong in a file not named *.jsonl") from error
    if isinstance(value, dict):
        value = next((value[key] for key in ("input_ids", "text", "prompt") if key in value), None)
    if isinstance(value, str) or (isinstance(value, list) and all(type(v) is int for v in value)):
        return value
    raise DSpineError(f"{where}: expected a string, a list of token ids, or an object with text, prompt or input_ids")
