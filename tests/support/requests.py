"""What goes into an engine and what comes out, round by round."""

from __future__ import annotations

import array
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """One prompt."""

    ids: list[int]
    sampling: dict[str, Any] = field(default_factory=dict)  # SGLang's sampling parameters; greedy if silent
    logprobs: int | None = None  # how many top log-probabilities of each output token; None: none at all
    prompt_logprobs_from: int = -1  # first prompt position that gets log-probabilities; -1: none
    rid: str | None = None
    cache_salt: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # further fields of TokenizedGenerateReqInput

    def tokenized(self, rid: str, tokenizer, vocab_size: int):
        """The message SGLang's tokenizer process would send to the scheduler."""
        from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
        from sglang.srt.sampling.sampling_params import SamplingParams

        sampling = SamplingParams(**{"temperature": 0, "max_new_tokens": 16, **self.sampling})
        sampling.normalize(tokenizer)
        sampling.verify(vocab_size)
        return TokenizedGenerateReqInput(
            rid=rid,
            input_text="",
            input_ids=array.array("q", self.ids),
            input_embeds=None,
            mm_inputs=None,
            token_type_ids=None,
            sampling_params=sampling,
            return_logprob=self.logprobs is not None,
            logprob_start_len=self.prompt_logprobs_from,
            top_logprobs_num=self.logprobs or 0,
            token_ids_logprob=None,
            stream=False,
            cache_salt=self.cache_salt,
            **self.extra,
        )


@dataclass
class Round:
    """What one step of the engine did for one request."""

    mode: str  # "extend" or "decode"
    accepted: int | None  # accepted length, bonus included, as the worker reported it; None without drafting
    tokens: list[int]  # tokens that the step added to the request's output
    batch: int  # requests in the step's batch


@dataclass
class Output:
    """A request's life so far, read from SGLang's own request object `req` (None until a step has seen it)."""

    rid: str
    rounds: list[Round] = field(default_factory=list)
    req: Any = None

    @property
    def output_ids(self) -> list[int]:
        """What a client receives: the last round may have accepted tokens beyond the stop."""
        return list(self.req.output_ids_through_stop)

    @property
    def finished(self) -> bool:
        return self.req is not None and self.req.finished()

    @property
    def finish_reason(self) -> dict | None:
        """SGLang's finish reason: {"type": "length", ...}, {"type": "stop", "matched": ...}, {"type": "abort"}."""
        return self.req.finished_reason.to_json() if self.req.finished_reason else None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens taken from the prefix cache."""
        return self.req.cached_tokens

    @property
    def accept_lengths(self) -> list[int]:
        """Accepted length, bonus included, of each verify round in order."""
        return [r.accepted for r in self.rounds if r.accepted is not None]

    @property
    def logprobs(self) -> list[float]:
        """Log-probability of each output token."""
        return list(self.req.logprob.output_token_logprobs_val)

    @property
    def top_logprobs(self) -> list[dict[int, float]]:
        """For each output token, the requested number of best ids with their log-probabilities."""
        found = self.req.logprob
        pairs = zip(found.output_top_logprobs_idx, found.output_top_logprobs_val, strict=True)
        return [dict(zip(ids, values, strict=True)) for ids, values in pairs]
