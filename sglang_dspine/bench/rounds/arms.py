"""The ways of serving that are compared, and SGLang's words for each."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from ...serve.command import Command

COMMON = (
    "--load-format", "dummy", "--skip-tokenizer-init", "--quantization", "fp8", "--mamba-ssm-dtype", "bfloat16",
    "--cuda-graph-backend-prefill", "disabled", "--disable-radix-cache",
)  # fmt: skip
DRAFT = ("--speculative-draft-load-format", "dummy", "--speculative-draft-model-quantization", "fp8")


@dataclass(frozen=True)
class Way:
    """One row of the table: a server, and at which width it is asked to verify."""

    name: str
    server: str  # ways of one server share it
    width: int  # verify rows; 0: the server's own policy; 1: plain decode
    window: int  # of the draft's attention, for the floor
    bridge: bool = False


WAYS = (
    Way("dflash2-8", "dflash2", 8, 2048),
    Way("dspine-8", "dspine", 8, 8192, bridge=True),
    Way("dspine-16", "dspine", 16, 8192, bridge=True),
    Way("dspine-table", "dspine", 0, 8192, bridge=True),
    Way("dspark-7", "dspark", 8, 2048),
    Way("plain", "plain", 1, 0),
)
PAIRS = {
    "dspine": ("dflash2-8", "dspine-8", "dspine-16", "dspine-table"),
    "dspark": ("dflash2-8", "dspark-7"),
    "plain": ("dflash2-8", "plain"),
}


ANCHOR = "dflash2-8"


def row_name(arm: str, pair: str) -> str:
    """The anchor's rows say beside whom it ran, so that no ratio is taken over two runs."""
    return f"{arm} beside {pair}" if arm == ANCHOR and pair != "dspine" else arm


def anchor_of(row: str) -> str:
    """The row that a row's round is divided by."""
    pair = row.partition(" beside ")[2] or next((pair for pair, arms in PAIRS.items() if row in arms), "dspine")
    return row_name(ANCHOR, pair)


@dataclass(frozen=True)
class Room:
    """Of one server beside another on the same GPU."""

    fraction: float = 0.42
    users: int = 32
    tokens: int = 300_000
    extra: tuple[str, ...] = field(default=())


def command(server: str, shapes: Path, port: int, room: Room) -> Command:
    """SGLang's command of one server."""
    words = [
        sys.executable, "-m", "sglang.launch_server", "--host", "127.0.0.1", "--port", str(port),
        "--model-path", str(shapes / "target"), *COMMON, "--mem-fraction-static", str(room.fraction),
        "--max-running-requests", str(room.users), "--max-total-tokens", str(room.tokens),
        "--cuda-graph-bs-decode", *(str(n) for n in (1, 8, 16, 32) if n <= room.users),
    ]  # fmt: skip
    environment = {}
    if server != "plain":
        algorithm = {"dflash2": "DFLASH", "dspark": "DSPARK", "dspine": "DSPINE"}[server]
        words += ["--speculative-algorithm", algorithm, "--speculative-draft-model-path", str(shapes / server), *DRAFT]
    if server == "dflash2":
        words += ["--speculative-num-draft-tokens", "8"]
    if server == "dspine":
        words += ["--enable-linear-replayssm-spec"]
        environment["DSPINE_WIDTHS"] = "8,16"
    return Command([*words, *room.extra], environment)
