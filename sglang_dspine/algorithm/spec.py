"""`CustomSpecAlgo` for DSPINE: a DFLASH-family algorithm with the methods SGLang 0.5.23's base class lacks."""

from __future__ import annotations

from typing import Any

from sglang.srt.speculative.spec_registry import CustomSpecAlgo

from . import flags


class DSpineSpecAlgo(CustomSpecAlgo):
    """Answers SGLang's `is_*` / `supports_*` questions (surface: speculative/spec_info.py)."""

    # DFLASH's data flow: draft KV at the target's own slots, a chain of proposals, tap capture.
    def is_dflash(self) -> bool:
        return True

    def is_dflash_family(self) -> bool:
        return True

    def supports_target_verify_for_draft(self) -> bool:
        return True

    def supports_prefill_shared_read_done(self) -> bool:
        return True

    def supports_mixed_chunk(self) -> bool:
        return True

    def supports_grammar_overlap(self) -> bool:
        return True

    # Called by the scheduler without a default in CustomSpecAlgo: a plain plugin dies there.
    def carries_draft_hidden_states(self) -> bool:
        return False

    def need_topk(self) -> bool:
        return False

    def get_platform_worker_cls(self) -> type | None:
        return None

    def create_future_map(self, device: Any, req_to_token_pool: Any, *args: Any, **kwargs: Any) -> Any:
        from sglang.srt.managers.overlap_utils import FutureMap

        return FutureMap(device, self, req_to_token_pool, *args, **kwargs)

    def build_disagg_draft_input(self, batch: Any, last_tokens_tensor: Any, future_map: Any) -> Any:
        from sglang.srt.speculative.dflash_disaggregation import build_dflash_disagg_draft_input

        return build_dflash_disagg_draft_input(batch, last_tokens_tensor, future_map)

    def handle_server_args(self, server_args: Any) -> None:
        flags.resolve(server_args)
