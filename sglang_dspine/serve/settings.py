"""What a user sets by environment. `serve.sh` has merged `.env` into it before Python starts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .failure import ServeError

KEY_VARIABLES = ["API_KEY", "SGLANG_API_KEY"]  # of commands that talk to a server; serve.sh itself reads the first


@dataclass(frozen=True)
class Settings:
    """Everything but the mode, which is a flag, and SGLang's own arguments, which follow `--`."""

    host: str = "127.0.0.1"
    port: int = 30000
    api_key: str | None = None
    start_limit_s: float = 600.0  # how long the server may take until it is healthy
    model: str | None = None  # target folder
    draft: str | None = None  # drafter folder or repository id
    python: str = sys.executable  # interpreter that has SGLang
    state: Path = Path("~/.local/state/sglang-dspine")  # running records and logs
    image: str | None = None  # for Docker; None: this repository's, built when it is not there
    cache: Path = Path("~/.cache/sglang-dspine")  # for Docker: compiled kernels, tuned tables, downloads
    lenient: bool = False  # start although the preflight fails

    @property
    def url(self) -> str:
        """Where this machine reaches the endpoint."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from environment variables; an empty variable counts as unset. Raises ServeError."""
    given = {name: value for name, value in environment.items() if value}
    usual = Settings()
    state = given.get("DSPINE_STATE") or Path(given.get("XDG_STATE_HOME", "~/.local/state")) / "sglang-dspine"
    return Settings(
        host=given.get("HOST", usual.host),
        port=int(_number(given, "PORT", usual.port, 1, 65535)),
        api_key=given.get("API_KEY"),
        start_limit_s=_number(given, "START_LIMIT", usual.start_limit_s, 1, 86400),
        model=given.get("MODEL"),
        draft=given.get("DRAFT"),
        python=given.get("DSPINE_PYTHON", usual.python),
        state=Path(state).expanduser(),
        image=given.get("IMAGE"),
        cache=Path(given.get("DSPINE_CACHE") or usual.cache).expanduser(),
        lenient=_preflight(given) == "warn",
    )


def _preflight(given: Mapping[str, str]) -> str:
    word = given.get("PREFLIGHT", "refuse")
    if word not in ("refuse", "warn"):
        raise ServeError(f"PREFLIGHT={word}: expected refuse or warn")
    return word


def _number(given: Mapping[str, str], name: str, usual: float, least: int, most: int) -> float:
    text = given.get(name, str(usual))
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise ServeError(f"{name}={text}: expected a number from {least} to {most}")
    return value
