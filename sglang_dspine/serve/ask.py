"""Greedy requests to a server's `/generate`, with what its counters say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from .failure import ServeError


@dataclass(frozen=True)
class Answer:
    ids: list[int]
    text: str
    rounds: int  # verify rounds (meta_info spec_verify_ct); 0 on a server that does not speculate


@dataclass(frozen=True)
class Answers:
    """Answers of one server to some prompts, in their order, and the wall seconds for all of them."""

    each: list[Answer]
    seconds: float

    @property
    def tokens(self) -> int:
        return sum(len(answer.ids) for answer in self.each)

    @property
    def tokens_per_second(self) -> float:
        """Prefill included."""
        return self.tokens / self.seconds

    @property
    def rounds(self) -> int:
        return sum(answer.rounds for answer in self.each)

    @property
    def accepted_length(self) -> float | None:
        """Mean tokens per verify round, bonus included. The first token of a request comes from its prefill, and a last
        round that is cut by the token limit counts with what was kept, so this is never too high."""
        return (self.tokens - len(self.each)) / self.rounds if self.rounds else None


class Asker:
    """Client of one server; raises ServeError when it does not answer as SGLang does."""

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 300.0) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.url = url
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, trust_env=False)

    def ask(self, prompt: str | Sequence[int], new_tokens: int) -> Answer:
        """At most `new_tokens` greedy tokens after a text or token ids."""
        field = {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
        body = {**field, "sampling_params": {"temperature": 0, "max_new_tokens": new_tokens}}
        try:
            response = self._http.post("/generate", json=body)
            response.raise_for_status()
            answer = response.json()
            return Answer(answer["output_ids"], answer["text"], answer["meta_info"].get("spec_verify_ct", 0))
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise ServeError(f"{self.url}/generate: {error!r}; expected SGLang's answer") from error

    def ask_all(self, prompts: Sequence[str | Sequence[int]], new_tokens: int, together: int = 1) -> Answers:
        """Send every prompt, `together` at a time."""
        began = time.perf_counter()
        pool = ThreadPoolExecutor(together)
        try:
            each = list(pool.map(lambda prompt: self.ask(prompt, new_tokens), prompts))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt must not wait for answers
        return Answers(each, time.perf_counter() - began)
