"""A built-in agent workload: a coding agent reads a module piece by piece, one shared system prompt for all.

The text is the Python standard library of the interpreter that runs this, so that nothing need be downloaded, and the
agent's own earlier answers are part of the workload: every arm gets the same prompts, whatever it writes.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

from ...evidence.recorded import Prompt, Recorded

MODULES = (
    "heapq", "csv", "textwrap", "bisect", "string", "shlex", "queue", "calendar", "fractions", "graphlib",
    "statistics", "configparser", "sched", "shelve", "wave", "zipapp",
)  # fmt: skip
TASKS = (
    "Add type hints to the functions that lack them.",
    "Write tests for what this code does with an empty input.",
    "Explain the part that is hardest to follow, then rewrite it.",
    "Find a case that this code handles wrongly and repair it.",
)
SYSTEM = """You are a coding agent. You work on one Python module at a time and answer with code.
Tools: read_file(path, start, end) returns lines of a file; edit_file(path, start, end, text) replaces lines;
run_tests(path) runs the tests of a module. Call one tool at a time and wait for its result.
Keep what you change small, keep the style of the file, and say in one sentence why a change is right.
"""


def synthetic(conversations: int = 16, turns: int = 3, characters: int = 4000, seed: int = 0) -> list[Recorded]:
    """`conversations` of `turns`, each turn showing the next `characters` of a module.

    All begin with the same system prompt of about `characters` / 2; a turn begins with the whole turn before it.
    """
    rng = random.Random(seed)
    sources = [_source(name) for name in MODULES]
    system = (SYSTEM + "Conventions, by example:\n" + _source("dataclasses"))[: max(len(SYSTEM), characters // 2)]
    found = []
    for number in range(conversations):
        module = number % len(MODULES)
        text = sources[module]
        last = max(1, len(text) - turns * characters)
        start = text.rfind("\n", 0, rng.randrange(last) + 1) + 1
        pieces = [text[start + i * characters : start + (i + 1) * characters] for i in range(turns)]
        name = f"{MODULES[module]}-{number}"
        found.append(Recorded(name, tuple(_turns(system, f"{MODULES[module]}.py", pieces, rng.choice(TASKS)))))
    return found


def _turns(system: str, path: str, pieces: list[str], task: str) -> list[Prompt]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    turns = []
    for number, piece in enumerate(pieces):
        asked = task if number == 0 else "The next part of the file. Go on."
        messages.append({"role": "user", "content": f"{asked}\n{path}, part {number + 1}:\n{piece}"})
        turns.append(Prompt(messages=list(messages)))
        messages.append({"role": "assistant", "content": f"I read part {number + 1} of {path}. Next part, please."})
    return turns


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, module
    return Path(spec.origin).read_text(encoding="utf-8")
