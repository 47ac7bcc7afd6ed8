"""The first tokens of a fresh server: is this the model, or garbage (report 29)?

A broken kernel answers fast and looks healthy. Two things give it away, whatever the model: ordinary text is no more
likely to it than random tokens would be, or what it decodes is unlikely to its own prefill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..exactness.endpoint import Endpoint
from .failure import ServeError

TEXT = (
    "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n\n\nfor i in range(10):\n    print(i)\n"
    "for i in range(10):\n    print(i)\nfor i in range(10):\n"
)
NEW_TOKENS = 24
SHARE = 0.6  # of a uniform guess's loss, ln V; a language model of any size is far below, garbage about 1


@dataclass(frozen=True)
class Probe:
    """Mean negative log-probabilities a token, in nats; not finite where the server answered so."""

    text: float  # of TEXT
    decoded: float  # of the server's own greedy continuation, scored by an uncached prefill
    uniform: float  # of a guess: ln V

    @property
    def line(self) -> str:
        return (
            f"first tokens: {self.text:.2f} nats a token on ordinary text, {self.decoded:.2f} on its own "
            f"(a guess: {self.uniform:.2f})"
        )

    @property
    def problem(self) -> str | None:
        limit = SHARE * self.uniform
        if not self.text <= limit:  # a NaN is no better
            return f"prefill is garbage: {self.text:.2f} nats a token on ordinary text, expected below {limit:.2f}"
        if not self.decoded <= limit:
            return f"decode is garbage: {self.decoded:.2f} nats a token on its own text, expected below {limit:.2f}"
        return None


def probe(url: str, vocab: int, api_key: str | None = None) -> Probe:
    """Ask a server. Raises DSpineError when it does not answer."""
    endpoint = Endpoint(url, concurrency=1, timeout=300.0, api_key=api_key)
    ids = endpoint.tokenize(TEXT)
    text = endpoint.score(ids, 1, top=1).logprobs
    greedy = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
    written = endpoint.generate(ids, greedy).ids
    decoded = endpoint.score([*ids, *written], len(ids), top=1).logprobs
    return Probe(_loss(text), _loss(decoded), math.log(vocab))


def _loss(logprobs: list[float]) -> float:
    return -sum(logprobs) / len(logprobs)


def require_sane(url: str, vocab: int, hint: str, api_key: str | None = None) -> Probe:
    """Raise ServeError, with what to try, when the first tokens are garbage."""
    found = probe(url, vocab, api_key)
    if found.problem:
        raise ServeError(f"{found.problem}. {hint}")
    return found
