"""A Docker engine in one file: writes down what it was asked for, and keeps a container's state in a JSON file.

STAND_IN_DOCKER   folder for calls.jsonl, one list of words a call, for images, and for one NAME.json a container
STAND_IN_DOWN     the engine does not answer
STAND_IN_DIES     a container that is run exits with this status
STAND_IN_HANGS    it never gets healthy
STAND_IN_ANSWER   exit status of `docker exec` (default 0)
STAND_IN_BUILD    exit status of `docker build` (default 0), STAND_IN_PULL of `docker pull`
"""

import json
import os
import sys
from pathlib import Path

words = sys.argv[1:]
folder = Path(os.environ["STAND_IN_DOCKER"])


def value(flag: str) -> str:
    return words[words.index(flag) + 1]


def state_of(name: str) -> Path:
    return folder / f"{name}.json"


def info() -> int:
    return 1 if "STAND_IN_DOWN" in os.environ else 0


def image() -> int:
    return 0 if (folder / "images").is_file() and words[-1] in (folder / "images").read_text().split() else 1


def build() -> int:
    status = int(os.environ.get("STAND_IN_BUILD", "0"))
    if status == 0:
        (folder / "images").write_text(value("--tag"))
    return status


def pull() -> int:
    return int(os.environ.get("STAND_IN_PULL", "0"))


def run() -> int:
    if state_of(value("--name")).exists():
        print(f"Conflict. The name {value('--name')} is taken", file=sys.stderr)
        return 125
    labels = dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--label")
    dies, hangs = os.environ.get("STAND_IN_DIES"), "STAND_IN_HANGS" in os.environ
    state = {"Status": "exited" if dies else "running", "ExitCode": int(dies or 0), "OOMKilled": False}
    state["Health"] = {"Status": "starting" if hangs else "healthy"}
    state_of(value("--name")).write_text(json.dumps({"State": state, "Config": {"Labels": labels}}))
    print("0123456789abcdef")
    return 0


def container() -> int:
    if not state_of(words[-1]).exists():
        print("[]")
        return 1
    print(json.dumps([json.loads(state_of(words[-1]).read_text())]))
    return 0


def logs() -> int:
    lines = [f"line {i} of the log" for i in range(300)]
    print("\n".join(lines[-int(value("--tail")) :] if "--tail" in words else lines))
    return 0


def rm() -> int:
    state_of(words[-1]).unlink(missing_ok=True)
    return 0


def stop() -> int:
    return 0 if state_of(words[-1]).exists() else 1


def answer() -> int:
    print("first answer: 'text', accepted length 3.94")
    return int(os.environ.get("STAND_IN_ANSWER", "0"))


with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(words) + "\n")
verbs = {
    "info": info,
    "image": image,
    "build": build,
    "pull": pull,
    "run": run,
    "container": container,
    "logs": logs,
    "rm": rm,
}
sys.exit((verbs | {"stop": stop, "exec": answer})[words[0]]())
