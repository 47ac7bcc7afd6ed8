"""The exact command that starts SGLang."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .failure import ServeError
from .profile import Flag, Profile
from .settings import Settings

TAKEN = {"--port": "PORT=", "--host": "HOST=", "--api-key": "API_KEY=", "--model-path": "MODEL=", "--model": "MODEL="}
DRAFTER = {"--speculative-draft-model-path": "DRAFT=", "--speculative-draft-model": "DRAFT="}  # where it is checked
HIDDEN = "<API_KEY>"


@dataclass(frozen=True)
class Command:
    """Words to run, and what they add to the environment."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line for a shell; secrets hidden."""
        assignments = [f"{name}={value}" for name, value in self.environment.items()]
        words = [HIDDEN if word in self.secrets else word for word in self.words]
        return shlex.join([*(["env", *assignments] if assignments else []), *words])


def launch_command(
    settings: Settings, model: str, profile: Profile, flags: Sequence[Flag] = (), extra: Sequence[str] = ()
) -> Command:
    """`profile`, then `flags`, then the user's `extra`, which therefore wins. Raises ServeError on an argument that
    serve.sh must know itself."""
    refuse_taken(extra)
    words = [settings.python, "-m", "sglang.launch_server", "--model-path", model]
    words += ["--host", settings.host, "--port", str(settings.port)]
    for flag in (*profile.flags, *flags):
        words += flag.words
    secrets: tuple[str, ...] = ()
    if settings.api_key:
        words += ["--api-key", settings.api_key]
        secrets = (settings.api_key,)
    return Command([*words, *extra], dict(profile.environment), secrets)


def refuse_taken(extra: Sequence[str], taken: Mapping[str, str] = TAKEN) -> None:
    for word in extra:
        name = word.partition("=")[0]
        if name in taken:
            raise ServeError(f"{name} after --: serve.sh must know it; set {taken[name]}... in the environment instead")


def speculation(draft: str) -> tuple[Flag, Flag]:
    """The two flags that make an SGLang command speculate with DSPINE."""
    return (
        Flag("--speculative-algorithm", "DSPINE", "this package"),
        Flag("--speculative-draft-model-path", draft, "the drafter"),
    )


def without_speculation(extra: Sequence[str]) -> list[str]:
    """A user's arguments for a server that does not speculate: `--speculative-*` and their values left out."""
    kept: list[str] = []
    dropping = False
    for word in extra:
        if word.startswith("--"):
            dropping = word.startswith("--speculative-")
        if not dropping:
            kept.append(word)
    return kept
