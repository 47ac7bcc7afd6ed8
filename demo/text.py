"""Training text: the Python standard library of an interpreter (PSF licence), as byte tokens.

Whole modules are held out, with their tests, so that held-out prompts are text the pair has never seen.
A token id is the byte's own value; ids 256 .. 259 are the specials, 260 .. 271 stay unused.
"""

import ast
import random
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

END_OF_TEXT, IM_START, IM_END, MASK = 256, 257, 258, 259
VOCAB = 272  # no multiple of 64: an engine that pads its vocabulary really pads here

HELD_OUT = {
    "bisect",
    "calendar",
    "configparser",
    "csv",
    "fractions",
    "graphlib",
    "heapq",
    "imaplib",
    "json",
    "queue",
    "sched",
    "shelve",
    "shlex",
    "statistics",
    "string",
    "textwrap",
    "wave",
    "zipapp",
}
# Tables and prose rather than code: they would teach the model to recite.
SKIPPED = ("encodings", "pydoc_data", "site-packages", "dist-packages", "__pycache__", "lib2to3")
SKIPPED_FILES = ("entities.py", "test_unicode_identifiers.py")


def is_held_out(path: Path) -> bool:
    """True for a held-out module, its package's files and its tests (`test_json/…`, `test_csv.py`)."""
    return any(part.removesuffix(".py").removeprefix("test_") in HELD_OUT for part in path.parts)


def modules(folder: Path) -> Iterator[Path]:
    """Python files below a folder, in order; skipped folders (installed packages may be huge) are not entered."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in SKIPPED:
            yield from modules(path)
        elif path.suffix == ".py":
            yield path


def sources(stdlib: Path, held_out: bool) -> list[tuple[Path, str]]:
    """(path relative to the library, text) of every readable module on one side of the split."""
    found = []
    for path in modules(stdlib):
        name = path.relative_to(stdlib)
        if name.name in SKIPPED_FILES or is_held_out(name) != held_out:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # the library ships a few files in other encodings as test data
        if 200 < len(text) < 400_000:
            found.append((name, text))
    return found


def stdlib_path() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def chat(user: str, answer: str) -> list[int]:
    """One turn in the form of the tokenizer's chat template."""
    turn = [IM_START, *f"user\n{user}".encode(), IM_END, *b"\n"]
    return [*turn, IM_START, *f"assistant\n{answer}".encode(), IM_END, *b"\n", END_OF_TEXT]


def chats(text: str) -> list[list[int]]:
    """Each function of a module as a question (its name or its signature) and an answer (its text)."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    found: list[list[int]] = []
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not 4 <= (node.end_lineno or 0) - node.lineno <= 40:
            continue
        body = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        signature = body.split(":\n")[0] + ":"
        asked = f"Write the function {node.name}." if len(found) % 2 else signature[:200]
        found.append(chat(asked, body))
    return found


@dataclass
class Corpus:
    """Three streams of tokens: modules, their tests, and chat turns made from both."""

    streams: list[torch.Tensor]
    shares: tuple[float, ...] = (0.5, 0.35, 0.15)

    @classmethod
    def read(cls, stdlib: Path, device: str = "cpu") -> "Corpus":
        turns: list[list[int]] = []
        code: list[list[torch.Tensor]] = [[], []]  # modules, tests
        end = torch.tensor([END_OF_TEXT], dtype=torch.int16)
        for name, text in sources(stdlib, held_out=False):
            is_test = any("test" in part for part in name.parts)
            data = bytearray(text.encode())
            code[is_test] += [torch.frombuffer(data, dtype=torch.uint8).to(torch.int16), end]
            if not is_test:
                turns += chats(text)
        random.Random(0).shuffle(turns)
        code.append([torch.tensor(turn, dtype=torch.int16) for turn in turns])
        return cls([torch.cat(parts).to(device) for parts in code if parts])

    def rows(self, count: int, length: int) -> torch.Tensor:
        """[count, length] windows at random offsets; a stream that is missing leaves its share to the rest."""
        usable = [(s, w) for s, w in zip(self.streams, self.shares, strict=False) if len(s) > 2 * length]
        weights = torch.tensor([w for _, w in usable])
        parts = torch.multinomial(weights, count, replacement=True).bincount(minlength=len(usable))
        windows = []
        for (stream, _), n in zip(usable, parts.tolist(), strict=True):
            start = torch.randint(len(stream) - length, (n, 1), device=stream.device)
            windows.append(stream[start + torch.arange(length, device=stream.device)])
        return torch.cat(windows).long()


def held_out_prompts(stdlib: Path, count: int, length: int, seed: int = 0) -> torch.Tensor:
    """[count, length] prompts that end at a line break inside held-out modules (tests left out)."""
    rng = random.Random(seed)
    found: list[list[int]] = []
    texts = [t.encode() for n, t in sources(stdlib, held_out=True) if "test" not in str(n)]
    while len(found) < count:
        text = rng.choice(texts)
        if len(text) <= 2 * length:
            continue
        end = text.find(b"\n", rng.randrange(length, len(text) - length)) + 1
        if end >= length:
            found.append(list(text[end - length : end]))
    return torch.tensor(found)
