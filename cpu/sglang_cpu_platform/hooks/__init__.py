"""Everything that is changed inside SGLang, one reason per file."""

from __future__ import annotations

from . import attention, dflash, dtype, fp8, gated_norm, paging, recurrent_state, replay, rows, tensors


def install() -> None:
    """Called once per process, while SGLang loads its plugins."""
    for part in (attention, dflash, dtype, fp8, gated_norm, paging, recurrent_state, replay, rows, tensors):
        part.install()
