"""What the scheduler sends on for each request: the last message holds the usage a client is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass
class Usage:
    """Of one request, as the client will read it."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    spec_verify_ct: int
    spec_num_correct_drafts: int


@contextmanager
def sent_usage(engine: Any) -> Iterator[dict[str, Usage]]:
    """Usage by request id, filled while the context lasts."""
    found: dict[str, Usage] = {}

    def send(message: Any) -> None:
        for i, rid in enumerate(getattr(message, "rids", None) or ()):
            if message.finished_reasons[i] is not None:
                found[rid] = Usage(**{name: getattr(message, name)[i] for name in Usage.__annotations__})

    channel = engine.scheduler.ipc_channels.send_to_detokenizer
    with mock.patch.object(channel, "send_output", send):
        yield found
