"""What a fresh server must answer before it is called serving: sane first tokens, then a text from verify rounds."""

from __future__ import annotations

from collections.abc import Callable

from .ask import Asker
from .failure import ServeError
from .probe import require_sane

PROMPT = "def fibonacci(n):\n"
NEW_TOKENS = 64


def first_answer(url: str, api_key: str | None, vocab: int, hint: str, say: Callable[[str], None]) -> None:
    """Raises ServeError for garbage, with `hint`, and for a server that does not speculate."""
    answers = Asker(url, api_key).ask_all([PROMPT], NEW_TOKENS)
    length = answers.accepted_length
    if length is None:
        raise ServeError("no verify rounds in the answer: this server does not speculate")
    say(require_sane(url, vocab, hint, api_key).line)
    say(f"first answer: {answers.each[0].text!r}, accepted length {length:.2f}")
