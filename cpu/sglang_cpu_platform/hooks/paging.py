"""Find a sequence's last slot (page size above 1) with SGLang's own PyTorch version, not Triton."""

from __future__ import annotations


def last_loc(req_to_token, req_pool_indices, prefix_lens):
    from sglang.srt.mem_cache.allocation import get_last_loc_torch

    return get_last_loc_torch(req_to_token, req_pool_indices, prefix_lens)


def install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.mem_cache.allocation.get_last_loc", last_loc, HookType.REPLACE)
