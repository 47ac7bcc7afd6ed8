"""The command line behind `serve.sh`, which has already chosen the mode."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def parse(words: Sequence[str], program: str) -> argparse.Namespace:
    """docker, once, restart, dry_run, status, stop, logs, and `extra`: everything after `--`, for SGLang."""
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog=program, description="Called by serve.sh; see ./serve.sh --help.")
    parser.add_argument("--docker", action="store_true", help="in a container")
    parser.add_argument("--once", action="store_true", help="check, stop, and exit")
    parser.add_argument("--restart", action="store_true", help="stop what is served on PORT first")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--dry-run", action="store_true", help="print SGLang's command and exit")
    actions.add_argument("--status", action="store_true", help="say what is served on PORT")
    actions.add_argument("--stop", action="store_true", help="stop what is served on PORT")
    actions.add_argument("--logs", action="store_true", help="show the end of the log of PORT's server")
    options = parser.parse_args(words[:cut])
    options.extra = words[cut + 1 :]
    return options
