"""Conversations as token ids: tokenised once, by the server of the first arm, and sent to every arm alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ...errors import DSpineError
from ...evidence.recorded import Prompt, Recorded


@dataclass(frozen=True)
class Conversation:
    name: str
    turns: tuple[tuple[int, ...], ...]  # token ids of each turn's prompt


@dataclass(frozen=True)
class Workload:
    conversations: tuple[Conversation, ...]
    sampling: dict[str, Any]  # SGLang sampling parameters, max_new_tokens among them; no seed
    source: str  # for the report

    @property
    def turns(self) -> int:
        return sum(len(c.turns) for c in self.conversations)

    @property
    def fingerprint(self) -> str:
        """Two runs with the same one sent the same prompts with the same sampling."""
        text = json.dumps([[list(c.turns) for c in self.conversations], self.sampling], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def tokenise(
    recorded: Sequence[Recorded], http: httpx.Client, sampling: dict[str, Any], source: str, room: int | None = None
) -> Workload:
    """Ask a server for the ids of every turn.

    room: the server's context in tokens; a turn that leaves too little of it for its answer is an error here, not a
        refusal in the middle of a run.
    """
    found = []
    for conversation in recorded:
        turns = tuple(tuple(_ids(prompt, http, conversation.name)) for prompt in conversation.turns)
        longest = max(map(len, turns)) + int(sampling["max_new_tokens"])
        if room is not None and longest > room:
            raise DSpineError(
                f"{conversation.name}: a prompt and its answer need {longest} tokens, the server's context has {room}; "
                "ask for fewer new tokens, or leave this conversation out"
            )
        found.append(Conversation(conversation.name, turns))
    return Workload(tuple(found), sampling, source)


def _ids(prompt: Prompt, http: httpx.Client, name: str) -> list[int]:
    if prompt.ids is not None:
        return prompt.ids
    body = {"prompt": prompt.text} if prompt.messages is None else {"messages": prompt.messages, **prompt.template}
    try:
        answer = http.post("/tokenize", json=body)
    except httpx.HTTPError as error:
        raise DSpineError(f"{http.base_url}: {error}; expected a running SGLang server") from error
    tokens = answer.json().get("tokens") if answer.status_code == 200 else None
    if not tokens:
        raise DSpineError(
            f"{name}: the server cannot tokenise a turn: status {answer.status_code}, {answer.text[:300]}; "
            "a target without a chat template takes conversations as prompt, text or input_ids"
        )
    return tokens
