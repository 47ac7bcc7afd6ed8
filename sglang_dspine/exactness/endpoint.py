"""A running SGLang server, seen from outside: the part of its native `/generate` that the suite uses.

Field names and semantics as in SGLang 0.5.23 (`managers/io_struct.py`, `GenerateReqInput`). Two traps: asking for
more top logprobs than the vocabulary has kills the server, and a prefix is reused from the cache up to
`logprob_start_len`, so a re-score carries a cache salt nobody else has and checks that nothing was reused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from sglang_dspine.errors import DSpineError

In = TypeVar("In")
Out = TypeVar("Out")
TopRow = list[tuple[float, int]]  # (logprob at temperature 1, token id), most probable first


class EndpointError(DSpineError):
    """The server could not be reached, refused a request, or answered something else than was asked."""


@dataclass(frozen=True)
class Generation:
    """One generated sequence."""

    ids: list[int]
    top: list[TopRow]  # of the rows that decided the tokens; empty unless asked for
    blocks: list[int]  # tokens that arrived together (a round's accepted length); empty unless streamed
    meta: dict[str, Any]


@dataclass(frozen=True)
class Score:
    """Teacher-forced rows of given tokens, computed with the cache off."""

    logprobs: list[float]  # of the given tokens
    top: list[TopRow]


class Endpoint:
    """Client of one server; every method may be called from several threads."""

    def __init__(self, url: str, *, concurrency: int = 4, timeout: float = 600.0, api_key: str | None = None):
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self.url, self.concurrency = url.rstrip("/"), concurrency
        limits = httpx.Limits(max_connections=concurrency)
        self._http = httpx.Client(base_url=self.url, timeout=timeout, headers=headers, limits=limits)

    def model(self) -> dict[str, Any]:
        """What the server says it serves."""
        return self._request("GET", "/model_info")

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a prompt, as `/generate` would read the text."""
        return self._field(self._request("POST", "/tokenize", {"prompt": text}), "tokens")

    def flush_cache(self) -> None:
        """Empty the radix cache; the server refuses while requests run."""
        self._send("POST", "/flush_cache", None)

    def generate(
        self, ids: Sequence[int], sampling_params: dict[str, Any], *, top: int = 0, stream: bool = False
    ) -> Generation:
        """Continue `ids`. top: top logprobs per row; stream: note which tokens arrived together."""
        body: dict[str, Any] = {"input_ids": list(ids), "sampling_params": sampling_params}
        if top:
            body |= {"return_logprob": True, "top_logprobs_num": top}
        blocks: list[int] = []
        answer = self._streamed(body, blocks) if stream else self._request("POST", "/generate", body)
        meta = self._field(answer, "meta_info")
        reason = meta.get("finish_reason") or {}
        if reason.get("type") == "abort":
            raise EndpointError(f"{self.url}: generation was aborted: {reason.get('message', reason)}")
        rows = [_top_row(r) for r in meta.get("output_top_logprobs", [])] if top else []
        out = self._field(answer, "output_ids")
        if top and len(rows) != len(out):
            raise EndpointError(f"{self.url}: {len(rows)} rows of top logprobs for {len(out)} generated tokens")
        return Generation(out, rows, blocks, meta)

    def score(self, ids: Sequence[int], start: int, *, top: int = 2) -> Score:
        """Rows that predict ids[start:], recomputed without any cached prefix. `start` is at least 1."""
        if not 1 <= start < len(ids):
            raise EndpointError(f"cannot score from token {start} of {len(ids)}: a row needs a token before it")
        body = {
            "input_ids": list(ids),
            "sampling_params": {"temperature": 0, "max_new_tokens": 1},
            "return_logprob": True,
            "logprob_start_len": start - 1,  # the first entry is that token itself, without a row
            "top_logprobs_num": top,
            "cache_salt": uuid.uuid4().hex,
        }
        meta = self._field(self._request("POST", "/generate", body), "meta_info")
        tokens, rows = meta["input_token_logprobs"][1:], meta["input_top_logprobs"][1:]
        # SGLang labels the vocabulary's last id 0 (`logprob_result_processor.py`); the logprob beside it is right.
        if [sent if t[1] == 0 else t[1] for t, sent in zip(tokens, ids[start:], strict=False)] != list(ids[start:]):
            raise EndpointError(f"{self.url}: the re-score returned rows of other tokens than were sent")
        if meta.get("cached_tokens"):
            raise EndpointError(
                f"{self.url}: a re-score under a fresh cache salt reused {meta['cached_tokens']} cached tokens, "
                "expected 0; restart the server with --disable-radix-cache and audit again"
            )
        return Score([_number(t[0]) for t in tokens], [_top_row(r) for r in rows])

    def map(self, job: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
        """Results of `job` in the order of `items`, `concurrency` at a time; the first failure is raised."""
        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(job, items))

    def _streamed(self, body: dict[str, Any], blocks: list[int]) -> dict[str, Any]:
        last: dict[str, Any] = {}
        try:
            with self._http.stream("POST", "/generate", json=body | {"stream": True}) as response:
                if response.status_code != 200:
                    raise EndpointError(f"{self.url}/generate: {response.status_code} {response.read()[:500]!r}")
                for line in response.iter_lines():
                    if line.startswith("data:") and line != "data: [DONE]":
                        last = json.loads(line[5:])
                        seen = len(self._field(last, "output_ids"))
                        if seen > sum(blocks):
                            blocks.append(seen - sum(blocks))
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        return last

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        response = self._send(method, path, body)
        try:
            return response.json()
        except json.JSONDecodeError:
            raise EndpointError(f"{self.url}{path}: expected JSON, found {response.text[:200]!r}") from None

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        try:
            response = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if response.status_code != 200:
            raise EndpointError(f"{self.url}{path}: status {response.status_code}, {response.text[:500]}")
        return response

    def _unreachable(self, error: httpx.HTTPError) -> EndpointError:
        return EndpointError(f"{self.url}: {error}; expected a running SGLang server at this address")

    def _field(self, answer: Any, name: str) -> Any:
        if not isinstance(answer, dict) or name not in answer:
            raise EndpointError(f"{self.url}: the answer has no {name!r}; expected SGLang's native API (0.5.23)")
        return answer[name]


def _top_row(row: list[list[Any]]) -> TopRow:
    return sorted(((_number(lp), int(token)) for lp, token, *_ in row), key=lambda t: (-t[0], t[1]))


def _number(logprob: float | None) -> float:
    """A logprob; NaN travels as null."""
    return float("nan") if logprob is None else float(logprob)
