"""The arms' servers: started when an arm is first visited, kept side by side or one at a time, gone at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...errors import DSpineError
from ...serve.command import Command, launch_command
from ...serve.hardware import find_gpu
from ...serve.health import wait_healthy
from ...serve.port import free_port
from ...serve.profile import Profile, choose_profile
from ...serve.server import Server
from ...serve.settings import Settings
from ...serve.target import is_recurrent
from .arm import Arm

Report = Callable[[float, str], None]
NEEDS_SPECULATION = ("--speculative-", "--enable-linear-replayssm-spec")


@dataclass(frozen=True)
class Launch:
    """What all servers of a run share."""

    target: str | None  # folder of the target; None when every arm is a running server
    extra: tuple[str, ...] = ()  # SGLang arguments of every arm, after the profile's
    folder: Path = Path("bench")  # logs
    keep: bool = True  # leave servers up side by side; else one at a time, restarted per visit
    settings: Settings = field(default_factory=Settings)


class Servers:
    """Use as a context manager; `url(arm)` is a healthy server of that arm."""

    def __init__(self, launch: Launch, arms: Sequence[Arm], report: Callable[[str], Report]) -> None:
        """report(what) gives the function that is told about the wait for `what`."""
        if launch.target is None and any(arm.url is None for arm in arms):
            missing = ", ".join(arm.name for arm in arms if arm.url is None)
            raise DSpineError(f"arms {missing} are to be started, but there is no --target; pass one, or url= for each")
        self.launch, self.report = launch, report
        self.profile = None if launch.target is None else choose_profile(find_gpu(), is_recurrent(Path(launch.target)))
        self._running: dict[str, tuple[Server, str]] = {}
        self.commands: dict[str, str] = {}

    def url(self, arm: Arm) -> tuple[str, bool]:
        """The address, and whether the server was started just now (its caches are cold)."""
        if arm.url is not None:
            return arm.url, False
        if arm.name in self._running:
            server, url = self._running[arm.name]
            if server.exit_status is not None:
                raise DSpineError(
                    f"arm {arm.name}: its server ended with status {server.exit_status}; log in {server.log.path}\n"
                    f"{server.log.tail(40)}"
                )
            return url, False
        if not self.launch.keep:
            self.stop()
        return self._start(arm), True

    def _start(self, arm: Arm) -> str:
        command = self.command(arm, port := free_port())
        self.commands[arm.name] = str(command)
        server = Server(command, self.launch.folder / f"{arm.name}.log")
        url = f"http://127.0.0.1:{port}"
        try:
            server.start()
            wait_healthy(server, url, self.launch.settings.start_limit_s, self.report(f"arm {arm.name}: starting"))
        except BaseException:
            server.stop()
            raise
        self._running[arm.name] = (server, url)
        return url

    def command(self, arm: Arm, port: int) -> Command:
        """SGLang's command of an arm: the profile of this GPU, then the run's arguments, then the arm's own."""
        assert self.profile is not None and self.launch.target is not None
        settings = replace(self.launch.settings, host="127.0.0.1", port=port)
        extra = [*self.launch.extra, *arm.arguments]
        made = launch_command(settings, self.launch.target, _fit(self.profile, arm), extra=extra)
        # `env` before the command: an arm's own setting wins over what this process was started with
        own = [f"{name}={value}" for name, value in arm.environment.items()]
        return replace(made, words=["env", *own, *made.words]) if own else made

    def stop(self) -> None:
        while self._running:
            _, (server, _) = self._running.popitem()
            server.stop()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *exception: Any) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            self.stop()


def _fit(profile: Profile, arm: Arm) -> Profile:
    """An arm without a drafter gets none of the flags that ask for one."""
    if arm.algorithm is not None:
        return profile
    flags = tuple(flag for flag in profile.flags if not flag.name.startswith(NEEDS_SPECULATION))
    return replace(profile, flags=flags)
