"""The container's own commands.

    python3 -m sglang_dspine.serve.inside run [SGLANG_ARGUMENTS]    SGLang, the API key out of its output
    python3 -m sglang_dspine.serve.inside ask VOCABULARY HINT       the first answer of the server beside

Without --model-path among the arguments, `run` plans as `serve.sh --native` does, from MODEL, DRAFT and the GPU: so
that a compose file needs no flags.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import IO

from ..preflight.words import value_of
from .docker_plan import KEY, PORT
from .keyfile import hide_key
from .log import REPLACED
from .run import run
from .settings import read_settings


def api_key() -> str | None:
    """From the mounted file, else from the environment."""
    path = Path(os.environ.get("API_KEY_FILE", KEY))
    return (path.read_text().strip() if path.is_file() else os.environ.get("API_KEY")) or None


def command(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """SGLang's words, without the key, and its environment."""
    if value_of(arguments, "--model-path") is not None:
        return [sys.executable, "-m", "sglang.launch_server", *arguments], {}
    from .native import plan
    from .plan import explain

    given = {**os.environ, "HOST": "0.0.0.0", "PORT": str(PORT), "API_KEY": "", "DSPINE_PYTHON": sys.executable}
    planned = plan(read_settings(given), arguments)
    print("\n".join(explain(planned.profile, planned.flags)), flush=True)
    return planned.command.words, planned.command.environment


def serve(arguments: list[str]) -> int:
    """Exit status of SGLang, 128 + n when signal n ended it."""
    words, added = command(arguments)
    environment = {**added, **{k: v for k, v in os.environ.items() if k != "API_KEY"}}
    key = api_key()
    if key is None:
        os.execvpe(words[0], words, environment)
    with tempfile.TemporaryDirectory() as folder:
        words = hide_key([*words, "--api-key", key], Path(folder) / "key.yaml")
        server = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        def forward(number: int, frame: FrameType | None) -> None:
            server.send_signal(number)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, forward)
        assert server.stdout is not None
        copier = threading.Thread(target=_copy, args=(server.stdout, key.encode()), daemon=True)
        copier.start()
        status = server.wait()
        copier.join(2.0)  # a process that SGLang has left behind may hold its output open for ever
    return status if status >= 0 else 128 - status


def _copy(stream: IO[bytes], key: bytes) -> None:
    for line in stream:
        sys.stdout.buffer.write(line.replace(key, REPLACED))
        sys.stdout.buffer.flush()


def ask(vocab: str, hint: str) -> int:
    from .answer import first_answer

    first_answer(f"http://127.0.0.1:{PORT}", api_key(), int(vocab), hint, lambda line: print(line, flush=True))
    return 0


def main(words: list[str]) -> int:
    if words[:1] == ["ask"] and len(words) == 3:
        return ask(*words[1:])
    return serve(words[1:] if words[:1] == ["run"] else words)


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
