"""The demo from start to stop: serve the pair with DSPINE, hold it against plain decode, go on serving."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from sglang_dspine.serve.ask import Answers, Asker
from sglang_dspine.serve.command import Command
from sglang_dspine.serve.endpoint import endpoint, hold, stop_on_signals
from sglang_dspine.serve.health import wait_healthy
from sglang_dspine.serve.port import free_port
from sglang_dspine.serve.progress import say, waiting
from sglang_dspine.serve.server import Server
from sglang_dspine.serve.settings import Settings

from .compare import Finding, compare, judge_length
from .plan import dspine_command, plain_command, profile
from .rows import compare_rows
from .text import held_out_prompts, stdlib_path

PROMPTS, PROMPT_BYTES, NEW_TOKENS, TOGETHER = 16, 256, 48, 8
EXAMPLE = (
    '{"text": "def _check(self, name, value):\\n    if not isinstance(", '
    '"sampling_params": {"temperature": 0, "max_new_tokens": 96}}'
)


def serve(settings: Settings, extra: Sequence[str], once: bool) -> int:
    """Exit status 1 when a token differs or too little is accepted, else 0; without `once`, after a stop."""
    console = Console()
    chosen, on_gpu = profile()
    command = dspine_command(settings, chosen, extra)
    stop_on_signals()
    say(console, f"profile {chosen.name}: {chosen.reason}\n{command}")
    with endpoint(settings, command, "the demo pair with DSPINE", console) as server:
        port = free_port()
        plain = plain_command(settings, chosen, port, extra)
        problems = [f.problem for f in check(settings, plain, port, on_gpu, console) if f.problem]
        for problem in problems:
            say(console, f"failed: {problem}")
        if problems or once:
            return 1 if problems else 0
        example = f"curl {settings.url}/generate -H 'Content-Type: application/json' -d '{EXAMPLE}'"
        hold(server, console, f"serving at {settings.url} until Ctrl-C or ./serve.sh --stop; for example\n  {example}")
    return 0


def check(settings: Settings, plain: Command, port: int, on_gpu: bool, console: Console) -> list[Finding]:
    """Send the prompts to both servers; print text, speed, accepted length and how many tokens differ."""
    prompts = held_out_prompts(stdlib_path(), PROMPTS, PROMPT_BYTES).tolist()
    ours = ask_both_ways(Asker(settings.url, settings.api_key), prompts)
    alone = ours[0]
    show_text(prompts[0], alone, console)
    with plain_server(settings, plain, port, console) as url:
        theirs = ask_both_ways(Asker(url, settings.api_key), prompts)
        show_speed("DSPINE", ours, console)
        show_speed("plain", theirs, console)
        if on_gpu:
            exact = compare_rows(settings, url, prompts, NEW_TOKENS)
        else:
            # both arms of ours, alone and together, against plain decode alone
            exact = compare(pair for arm in ours for pair in zip(arm.each, theirs[0].each, strict=True))
    findings = [judge_length(alone.accepted_length, alone.tokens, alone.rounds), exact]
    for finding in findings:
        say(console, finding.line)
    return findings


def ask_both_ways(asker: Asker, prompts: Sequence[Sequence[int]]) -> tuple[Answers, Answers]:
    """The prompts one at a time, then TOGETHER at a time, from the prefix cache."""
    return asker.ask_all(prompts, NEW_TOKENS), asker.ask_all(prompts, NEW_TOKENS, TOGETHER)


@contextmanager
def plain_server(settings: Settings, command: Command, port: int, console: Console) -> Iterator[str]:
    """The address of the same target without speculation, for the duration of the block."""
    url = f"http://127.0.0.1:{port}"
    with Server(command, settings.state / f"{settings.port}-plain.log") as server:
        with waiting(console, "waiting for plain decode, to compare") as report:
            wait_healthy(server, url, settings.start_limit_s, report)
        yield url


def show_text(prompt: Sequence[int], answers: Answers, console: Console) -> None:
    end = bytes(prompt).decode(errors="replace")[-120:]
    say(
        console,
        f"the first of {len(answers.each)} prompts (held-out Python) from its end on, then the greedy text:",
    )
    console.print(end, style="dim", end="", markup=False, highlight=False)
    console.print(answers.each[0].text, style="bold", markup=False, highlight=False)


def show_speed(name: str, both: tuple[Answers, Answers], console: Console) -> None:
    alone, together = (answers.tokens_per_second for answers in both)
    say(console, f"{name}: {alone:.0f} tok/s one request at a time, {together:.0f} tok/s {TOGETHER} at a time")
