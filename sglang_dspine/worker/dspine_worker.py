"""`DSpineWorker`: SGLang's DFLASH worker with DSpine's own decode round."""

from __future__ import annotations

import logging
from typing import Any

import torch
from sglang.srt.speculative.dflash_worker_v2 import DFlashWorkerV2
from sglang.srt.speculative.draft_worker_common import make_draft_block_spec_info

from ..commit.context_kv import ContextKV, why_not
from ..commit.recurrent import history_room
from ..commit.state_report import say_scratch
from ..draft.head import TargetHead
from ..errors import FlagError
from ..model.narrow_window import narrow_layers
from ..verify.penalties import PenaltyTracker
from ..verify.repair_log import RepairLog
from ..verify.simulate import Simulation, read_profile
from .agreement import Agreement
from .exported import exports_metrics
from .pair import check_pair
from .prefill import prefill_round
from .round import decode_round
from .self_check import self_check
from .served_plan import served_plan
from .width_metrics import WidthMetrics
from .widths import Widths

logger = logging.getLogger(__name__)


class DSpineWorker(DFlashWorkerV2):
    """Prefill, pools and idle rounds are the base class's; a decode round is `round.decode_round`."""

    def __init__(self, server_args: Any, gpu_id: int, nccl_port: int, target_worker: Any) -> None:
        check_pair(target_worker.model_runner.model_config)  # before minutes of loading
        super().__init__(server_args, gpu_id, nccl_port, target_worker)
        if not self._use_fused_kv_materialize:  # no GPU: the base class did not ask
            self._init_context_kv()
        config, target = self.draft_model.dspine, target_worker.model_runner
        self.head = TargetHead(target.model.lm_head, config.vocab_size, config.hidden_size, target.dtype)
        self.draft_model.attach_head(self.head)
        self.agreement = Agreement(self._tp_sync)
        exported = exports_metrics(server_args)
        self.repairs = RepairLog(exported)
        self.graphs_on = False
        self.max_width = int(self.block_size)
        self.history_room = history_room(server_args, self.max_width)
        self.widths = Widths(self, served_plan(server_args, config.block_size, self.max_width), WidthMetrics(exported))
        profile = read_profile()
        self.simulation = Simulation(profile, self.max_width, self.device) if profile else None
        self._spec_infos: dict[int, Any] = {}

    def _init_fused_kv_helper(self) -> None:
        """How context rows get into the draft's KV on a GPU: ours for an FP8 draft, SGLang's for a BF16 one."""
        if not self._init_context_kv():
            super()._init_fused_kv_helper()

    def _init_context_kv(self) -> bool:
        layers = self.draft_model.layers
        reason = why_not(layers)
        if reason:
            logger.info("DSPINE: context K/V go SGLang's way (%s)", reason)
            return False
        longest = int(self.target_worker.model_runner.model_config.context_len) + int(self.block_size)
        self._fused_kv_helper, self._use_fused_kv_materialize = ContextKV(layers, longest), True
        logger.info("DSPINE: K and V of all %d layers from one FP8 product", len(layers))
        return True

    def alloc_memory_pool(self, *args: Any, **kwargs: Any) -> None:
        super().alloc_memory_pool(*args, **kwargs)
        for attention in narrow_layers(self.draft_model):
            if self.use_compact_draft_cache:
                raise FlagError(
                    f"--speculative-draft-window-size {self.draft_window_size}: this draft's own window is shorter "
                    "than its block; leave the flag unset"
                )
            attention.runner = self.draft_model_runner
        self.widths.narrow_own_capture()
        self.scratch = say_scratch(self.target_worker.model_runner, self.server_args, self.max_width)

    def init_cuda_graphs(self) -> None:
        from sglang.srt.model_executor.cuda_graph_config import Backend
        from sglang.srt.runtime_context import get_exec

        decode = get_exec().graph.cuda_graph_config.decode
        self.graphs_on = decode.backend != Backend.DISABLED
        captured = decode.bs or [1]
        pool, vocab = self.model_runner.req_to_token_pool, self.model_runner.model_config.vocab_size
        self.penalties = PenaltyTracker(pool.req_to_token.shape[0], vocab, self.device)
        limit = max(int(self.model_runner.max_running_requests or 1), *captured)
        self.draft_model.make_proposer(limit, self.agreement.proposal if self.head.ranks else None)
        super().init_cuda_graphs()
        self.widths.build()
        self.self_check = self_check(self)

    def _maybe_build_draft_sampler(self) -> None:
        """None: the proposal is part of the draft model's forward, and so of its graph."""

    def draft_spec_info(self, width: int) -> Any:
        """SGLang's input record of a draft block of `width` rows."""
        if width not in self._spec_infos:
            self._spec_infos[width] = make_draft_block_spec_info(draft_token_num=width, device=self.device)
        return self._spec_infos[width]

    def on_verify_complete_cpu(self, num_correct_drafts_per_req: list[int], batch_size: int = 0) -> None:
        """SGLang's call with a round's accepted proposals, once they are on the host."""
        self.widths.finished(len(num_correct_drafts_per_req), num_correct_drafts_per_req)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """[N, w] -> [N, w, H] by the target's embedding."""
        embeds = self.target_worker.model_runner.model.get_input_embeddings()(ids)
        return embeds if self._noise_embed_scale == 1.0 else embeds * self._noise_embed_scale

    def forward_batch_generation(
        self, batch: Any, on_publish: Any = None, grammar_barrier: Any = None, pp_proxy_tensors: Any = None
    ) -> Any:
        prefill = batch.forward_mode.is_extend() or batch.is_extend_in_batch
        if prefill:
            self.widths.clock.interrupt()
            return prefill_round(self, batch, super().forward_batch_generation, on_publish, grammar_barrier)
        if batch.spec_info is None or batch.forward_mode.is_idle():
            return super().forward_batch_generation(batch, on_publish, grammar_barrier, pp_proxy_tensors)
        return decode_round(self, batch, on_publish, grammar_barrier)
