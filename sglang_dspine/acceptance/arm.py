"""What is compared: a drafter's folder, and how it drafts.

Written as words: a name, a folder, and settings. `width=8` counts the anchor; `window=2048` narrows the attention to
the context; `bridge=zeroed` and `bridge=last` take the bridge out of all layers, or of all but the last; `fp8`
quantises linears and fc as SGLang does online.

    dspine  /models/dspine
    narrow  /models/dspine window=2048 width=8
    dflash2 /models/dflash2
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DSpineError

BRIDGES = ("full", "zeroed", "last")


@dataclass(frozen=True)
class Arm:
    name: str
    folder: Path
    width: int | None = None  # None: the checkpoint's block
    window: int | None = None  # None: as trained
    bridge: str = "full"
    fp8: bool = False

    @property
    def words(self) -> str:
        """All but the name: two arms with the same words draft the same."""
        parts = [str(self.folder.resolve())]
        parts += [f"{key}={value}" for key in ("width", "window") if (value := getattr(self, key)) is not None]
        return " ".join([*parts, f"bridge={self.bridge}", *(["fp8"] if self.fp8 else [])])


def parse_arm(text: str) -> Arm:
    """Raises DSpineError on words that are no arm."""
    words = shlex.split(text)
    if len(words) < 2 or "=" in words[0] or "=" in words[1]:
        raise DSpineError(f"arm {text!r}: expected a name and a drafter's folder, as in 'dspine /models/dspine'")
    name, folder, *settings = words
    if not (Path(folder) / "config.json").is_file():
        raise DSpineError(f"arm {name}: {folder} holds no config.json; expected a drafter's folder")
    numbers: dict[str, int] = {}
    bridge, fp8 = "full", False
    for word in settings:
        key, _, value = word.partition("=")
        if word == "fp8":
            fp8 = True
        elif key in ("width", "window") and value.isdecimal() and int(value) >= 2:
            numbers[key] = int(value)
        elif key == "bridge" and value in BRIDGES:
            bridge = value
        else:
            raise DSpineError(f"arm {name}: {word!r}; expected width=N, window=N, bridge={'|'.join(BRIDGES)} or fp8")
    return Arm(name, Path(folder), numbers.get("width"), numbers.get("window"), bridge, fp8)


def parse_arms(texts: Sequence[str]) -> tuple[Arm, ...]:
    """Arms in the order given; the first is the baseline of every ratio."""
    arms = tuple(parse_arm(text) for text in texts)
    names = [arm.name for arm in arms]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not arms:
        raise DSpineError(f"arms: {', '.join(twice)} given twice" if twice else "no arm; expected at least one")
    return arms
