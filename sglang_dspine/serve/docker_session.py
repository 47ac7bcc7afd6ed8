"""Serve in a container: check on the host, build or find the image, start, wait, first answer; then it runs on alone.

Needs nothing but Docker and Python's standard library on the host.
"""

from __future__ import annotations

import signal
import time
from argparse import Namespace
from pathlib import Path

from .actions import LINES
from .checks import preflight, refuse
from .command import Command
from .docker_plan import HUB, IMAGE, container_name, docker_command, image_of, key_path, plan_mark
from .engine import PLAN, Container, Engine, require_engine
from .failure import ServeError, next_step, refusal
from .fallback import fallback
from .guard import watch_memory
from .keyfile import write_private
from .native import Plan, plan
from .plan import explain
from .record import find_record, log_path
from .settings import Settings
from .state import require_usable

ROOT = Path(__file__).resolve().parents[2]
POLL_S, SAY_S = 0.5, 10.0
VOCAB = 32000


def serve_in_docker(settings: Settings, options: Namespace) -> int:
    """0 once it serves; it goes on serving after this process. With `once` it is stopped again."""
    engine = require_engine()
    planned = plan(settings, options.extra)
    command = docker_command(settings, options.extra)
    if already(engine, settings, command, options):
        return 0
    require_usable(settings.state)
    looked = preflight(planned, settings)
    print("\n".join([*explain(planned.profile, planned.flags), *looked.lines]), flush=True)
    if planned.gpu is None:
        raise ServeError("no GPU, and a container is for one; --native or --demo serve on the CPU")
    refuse(looked.findings, settings.lenient)
    provide_image(engine, settings)
    (settings.cache / HUB).mkdir(parents=True, exist_ok=True)  # by us: Docker would make them root's
    if settings.api_key:
        write_private(key_path(settings), settings.api_key)
    print(command, flush=True)
    name = container_name(settings)
    try:
        engine.must(*command.words[1:])
        seconds = wait(engine, settings, planned)
        print(f"healthy after {seconds:.0f} s", flush=True)
        answer(engine, settings, planned)
    except BaseException:  # an interrupt too: what does not serve must not stay behind
        keep_log(engine, settings)
        engine.remove(name)
        key_path(settings).unlink(missing_ok=True)
        raise
    if options.once:
        engine.remove(name)
        key_path(settings).unlink(missing_ok=True)
        return 0
    print(f"serving at {settings.url} in container {name}; ./serve.sh --logs, --status, --stop", flush=True)
    return 0


def already(engine: Engine, settings: Settings, command: Command, options: Namespace) -> bool:
    """True when the same server is up. Another one is an error; one that ended is taken away."""
    record, name = find_record(settings.state, settings.port), container_name(settings)
    if record is not None:
        raise ServeError(
            f"{record.what} is served natively at {record.url}; end it with ./serve.sh --stop, or set PORT="
        )
    there = engine.find(name)
    if there is None:
        return False
    if there.running and not options.restart:
        if there.labels.get(PLAN) == plan_mark(command):
            print(
                f"{there.what} is served at {settings.url} already, container {name} ({there.health or there.status})"
            )
            return True
        raise ServeError(
            f"{there.what} is served at {settings.url} with other settings; ./serve.sh --restart replaces it, --stop "
            "ends it, PORT= serves beside it"
        )
    engine.remove(name)
    print(f"{'stopped' if there.running else 'removed'} {there.what or 'a server'}, container {name}", flush=True)
    return False


def provide_image(engine: Engine, settings: Settings) -> None:
    """Build ours when it is not there, pull another's."""
    image = image_of(settings)
    if engine.has_image(image):
        return
    if image != IMAGE:
        if engine.show(["pull", image]) != 0:
            raise ServeError(f"docker pull {image} failed; IMAGE= names an image to use, unset it is built here")
        return
    print(f"building {image}, once; this takes a while", flush=True)
    dockerfile = str(ROOT / "docker" / "Dockerfile")
    if engine.show(["build", "--file", dockerfile, "--tag", image, str(ROOT)]) != 0:
        raise ServeError(f"docker build of {image} failed; its output above says where. IMAGE= names one that is built")


def wait(engine: Engine, settings: Settings, planned: Plan) -> float:
    """Seconds until the container is healthy. Raises ServeError with the end of its log."""
    began, said, watch = time.monotonic(), 0.0, watch_memory(planned.memory)
    shown = ""
    name = container_name(settings)
    while (seconds := time.monotonic() - began) < settings.start_limit_s:
        seen = engine.find(name)
        if seen is None or not seen.running:
            tail = engine.log(name, LINES)
            raise refusal(None if seen is None else seen.exit_status, tail) or ServeError(_died(seen, settings), tail)
        if seen.health == "healthy":
            return seconds
        watch()
        if seconds - said >= SAY_S:
            said, line = seconds, engine.log(name, 1)[-100:]
            print(f"waiting for {name} {seconds:.0f} s" + (f"  {line}" if line != shown else ""), flush=True)
            shown = line
        time.sleep(POLL_S)
    raise ServeError(
        f"not healthy after {settings.start_limit_s:.0f} s; START_LIMIT=SECONDS allows more. Full log: "
        f"{log_path(settings.state, settings.port)}",
        engine.log(name, LINES),
    )


def _died(seen: Container | None, settings: Settings) -> str:
    log = log_path(settings.state, settings.port)
    if seen is None:
        return "the container is gone; someone removed it"
    killed = seen.out_of_memory or seen.exit_status == 128 + signal.SIGKILL
    how = "was killed" if killed else "ended"
    return f"SGLang {how} with status {seen.exit_status}: {next_step(killed)}. Full log: {log}"


def answer(engine: Engine, settings: Settings, planned: Plan) -> None:
    """The first answer, asked for inside, where the clients are."""
    hint = fallback(planned.target, planned.gpu, planned.command.words)
    vocab = str(planned.target.vocab or VOCAB)
    if engine.show(
        ["exec", container_name(settings), "python3", "-m", "sglang_dspine.serve.inside", "ask", vocab, hint]
    ):
        log = engine.log(container_name(settings), 40)
        raise ServeError("the first answer is not what a working server gives; the line above says what to try", log)


def keep_log(engine: Engine, settings: Settings) -> None:
    """The whole log, for when the container is gone."""
    if engine.find(container_name(settings)) is not None:
        write_private(log_path(settings.state, settings.port), engine.log(container_name(settings)) + "\n")
