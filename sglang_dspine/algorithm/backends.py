"""Draft attention backend by compute capability (report 28): one table, each choice with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    backend: str
    reason: str


def draft_attention_backend(capability: tuple[int, int] | None) -> Choice:
    """Backend for the draft's windowed causal attention.

    Args:
        capability: (major, minor) of the GPU, or None without one.
    """
    if capability is None:
        return Choice("intel_amx", "no GPU: SGLang's CPU attention backend")
    major = capability[0]
    if major == 9:
        return Choice("fa3", "Hopper (sm_90): FlashAttention 3 takes windows and pages")
    if major in (10, 12):
        return Choice("fa4", f"Blackwell (sm_{major}{capability[1]}): FlashAttention 3 is Hopper only")
    if major == 8:
        return Choice("triton", f"sm_{major}{capability[1]}: no FlashAttention 3 or 4; Triton runs everywhere")
    return Choice("triton", f"sm_{major}{capability[1]} is not in the table; Triton runs everywhere")
