"""Two GPU assumptions of the DFLASH family."""

from __future__ import annotations


def without_table_rope(result, self, *args, **kwargs):
    """bfloat16 drafts would take a fused Triton norm-and-rope; the plain path computes the same."""
    self.use_table_qk_norm_rope = False


def install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.speculative.dflash_info import DFlashVerifyInput

    # The attention backend asks every verify input whether it is a tree; this one is always a chain.
    DFlashVerifyInput.tree_topk = 1
    target = "sglang.srt.models.dflash.DFlashAttention.__init__"
    HookRegistry.register(target, without_table_rope, HookType.AFTER)
