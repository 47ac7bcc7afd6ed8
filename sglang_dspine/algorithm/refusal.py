"""When registration fails, the flag itself must say why."""

from __future__ import annotations

import sys
from typing import Any


def register_refusal(name: str, reason: str) -> None:
    """Register `name` as an algorithm whose only answer is `reason`, so that "Unknown speculative algorithm" never
    stands alone. Where SGLang's registry itself is unusable, the reason goes to stderr."""

    def refuse(server_args: Any) -> None:
        raise RuntimeError(reason)

    try:
        from sglang.srt.speculative import spec_registry
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        if spec_registry.get_spec(name) is None:
            SpeculativeAlgorithm.register(name, supports_overlap=True, validate_server_args=refuse)(refuse)
    except Exception as error:
        print(f"{reason} (and no refusal could be registered: {error})", file=sys.stderr, flush=True)
