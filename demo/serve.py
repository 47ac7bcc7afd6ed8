"""`./serve.sh --demo`: standard library only until something is started, so that `--dry-run` needs no installation."""

import os
import sys

from sglang_dspine.serve.options import parse
from sglang_dspine.serve.plan import print_plan
from sglang_dspine.serve.run import run
from sglang_dspine.serve.settings import read_settings

from .plan import DRAFT, dspine_command, profile, speculation


def main(words: list[str]) -> int:
    options, settings = parse(words, "serve.sh --demo"), read_settings(os.environ)
    if options.dry_run:
        chosen, _ = profile()
        print_plan(chosen, speculation(DRAFT), dspine_command(settings, chosen, options.extra))
        return 0
    from .session import serve

    return serve(settings, options.extra, options.once)


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
