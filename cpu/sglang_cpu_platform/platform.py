"""The platform SGLang sees: a CPU that can draft and verify, and snapshot recurrent states."""

from __future__ import annotations

from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.interface import PlatformCapabilities

ATTENTION_BACKEND = "intel_amx"  # the class only calls sgl_kernel ops; the stand-in's need no AMX
SPECULATIVE_ALGORITHMS = frozenset({"DFLASH", "DSPINE"})


class PlainCpuPlatform(CpuSRTPlatform):
    """In SGLang's sense out of tree, so that its checks ask this class instead of a list of GPU names."""

    capabilities = PlatformCapabilities()  # no Triton, no graph capture: every step runs eagerly

    def is_out_of_tree(self) -> bool:
        return True

    def get_default_attention_backend(self) -> str:
        return ATTENTION_BACKEND

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        return algorithm in SPECULATIVE_ALGORITHMS

    def supports_speculative_draft_attention_backend(self, algorithm: str, backend: str) -> bool:
        return backend == ATTENTION_BACKEND

    def get_default_speculative_draft_attention_backend(self, algorithm: str) -> str:
        return ATTENTION_BACKEND

    def support_mamba_cache_extra_buffer(self) -> bool:
        return True  # hooks/recurrent_state.py copies the snapshots
