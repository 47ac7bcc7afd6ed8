"""One way to serve the target.

Written as words: a name, then `ALGORITHM=/path/to/drafter` (without it: no speculation), `NAME=VALUE` for the server's
environment, and, from the first `--flag` on, SGLang arguments. `url=http://…` is a server somebody else runs.

    plain
    dspine DSPINE=/models/dspine
    narrow DSPINE=/models/dspine --speculative-num-draft-tokens 8
    rival  url=http://127.0.0.1:30000
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...errors import DSpineError

ALGORITHMS = ("DSPINE", "DFLASH", "DSPARK")


@dataclass(frozen=True)
class Arm:
    name: str
    algorithm: str | None = None
    draft: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()  # SGLang arguments of this arm alone
    url: str | None = None

    @property
    def arguments(self) -> list[str]:
        """What this arm adds to SGLang's command."""
        if self.algorithm is None or self.draft is None:
            return list(self.words)
        return [
            "--speculative-algorithm", self.algorithm, "--speculative-draft-model-path", self.draft, *self.words,
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_arm(text: str) -> Arm:
    """An arm from its words. Raises DSpineError on words that say nothing, or two things."""
    try:
        name, *words = shlex.split(text)
    except ValueError:
        raise DSpineError(f"arm {text!r}: expected a name first, as in 'dspine DSPINE=/path'") from None
    if "=" in name or name.startswith("-"):
        raise DSpineError(f"arm {text!r}: begins with {name!r}; expected a name first, as in 'dspine {name}'")
    cut = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    settings, flags = words[:cut], tuple(words[cut:])
    algorithm = draft = url = None
    environment = {}
    for word in settings:
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise DSpineError(f"arm {name}: {word!r}; expected NAME=VALUE, {'=, '.join(ALGORITHMS)}= or url=")
        if key in ALGORITHMS:
            if algorithm is not None:
                raise DSpineError(f"arm {name}: both {algorithm}= and {key}=; an arm has one drafter")
            algorithm, draft = key, value
        elif key == "url":
            url = value.rstrip("/")
        else:
            environment[key] = value
    if url is not None and (algorithm or environment or flags):
        raise DSpineError(f"arm {name}: url= is a server that runs already; its flags cannot be set here")
    return Arm(name, algorithm, draft, environment, flags, url)


def parse_arms(texts: Sequence[str]) -> tuple[Arm, ...]:
    """Arms in the order given; the first is the baseline of every ratio."""
    arms = tuple(parse_arm(text) for text in texts)
    names = [arm.name for arm in arms]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DSpineError(f"arms: {', '.join(twice)} given twice; expected a name of its own for each")
    if not arms:
        raise DSpineError("no arm; expected at least one, as in --arm plain --arm 'dspine DSPINE=/path'")
    return arms
