"""Send Qwen3.5's gated RMSNorm to sgl_kernel, which SGLang does only when the CPU has AMX."""

from __future__ import annotations


def install() -> None:
    from sglang.kernels.ops.attention.fla import fused_norm_gate, layernorm_gated

    fused_norm_gate._use_cpu = layernorm_gated._use_cpu = True
