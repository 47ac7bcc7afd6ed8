"""Every SGLang symbol this plugin stands on: one table, checked by `check.py` against the installed sources.

`params` names the parameters we pass (None: the symbol only has to exist). `attrs` names instance attributes that
the class itself assigns and we read or write.
"""

from __future__ import annotations

from dataclasses import dataclass

SGLANG_VERSION = "0.5.23"


@dataclass(frozen=True)
class Symbol:
    """One function, class, method or module-level name of SGLang."""

    module: str
    name: str  # "function", "Class", "Class.method" or a module-level variable
    params: tuple[str, ...] | None = None
    attrs: tuple[str, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


_SPEC = "sglang.srt.speculative"
_WORKER = f"{_SPEC}.dflash_worker_v2"
_RUNNERS = "sglang.srt.model_executor"
_SCHEDULER = "sglang.srt.managers.scheduler_components"

SYMBOLS: tuple[Symbol, ...] = (
    # registration
    Symbol(
        f"{_SPEC}.spec_info",
        "SpeculativeAlgorithm.register",
        ("name", "supports_overlap", "validate_server_args", "spec_class"),
        why="the flag",
    ),
    Symbol(f"{_SPEC}.spec_info", "SpeculativeAlgorithm.from_string", ("name",), why="the flag"),
    Symbol(
        f"{_SPEC}.spec_registry",
        "CustomSpecAlgo",
        attrs=("name", "factory", "supports_overlap", "validate_server_args"),
        why="base class",
    ),
    Symbol(f"{_SPEC}.spec_registry", "CustomSpecAlgo.handle_server_args", ("server_args",), why="flags"),
    Symbol(f"{_SPEC}.spec_registry", "CustomSpecAlgo.resolve_max_speculative_num_draft_tokens", ("server_args",)),
    Symbol(
        "sglang.srt.managers.overlap_utils",
        "FutureMap.__init__",
        ("device", "spec_algo", "req_to_token_pool"),
        why="create_future_map",
    ),
    Symbol(f"{_SPEC}.dflash_disaggregation", "build_dflash_disagg_draft_input", why="PD disaggregation"),
    Symbol(
        "sglang.srt.plugins.hook_registry",
        "HookRegistry.register",
        ("target", "hook", "hook_type"),
        why="multi-tokenizer workers",
    ),
    Symbol("sglang.srt.plugins.hook_registry", "HookType", why="multi-tokenizer workers"),
    Symbol("sglang.srt.plugins", "load_plugins", why="multi-tokenizer workers"),
    Symbol("sglang.srt.entrypoints.http_server", "app", why="multi-tokenizer workers"),
    Symbol("sglang.srt.models.registry", "ModelRegistry", why="DSpineDraftModel"),
    # draft model
    Symbol("sglang.srt.models.dflash", "DFlashDraftModel.__init__", ("config", "quant_config", "prefix")),
    Symbol("sglang.srt.models.dflash", "DFlashDraftModel.load_weights", ("weights",)),
    Symbol("sglang.srt.models.dflash", "DFlashDraftModel.project_target_hidden", ("target_hidden",)),
    Symbol(
        "sglang.srt.models.dflash",
        "DFlashDecoderLayer.forward",
        ("positions", "hidden_states", "forward_batch", "residual"),
    ),
    Symbol("sglang.srt.models.dflash", "DFlashAttention.kv_proj_only", ("hidden_states",)),
    Symbol("sglang.srt.models.dflash", "DFlashAttention.apply_k_norm", ("k",)),
    Symbol("sglang.srt.models.dflash", "DFlashAttention.apply_k_rope", ("positions", "k")),
    Symbol("sglang.srt.layers.logits_processor", "LogitsProcessorOutput", attrs=("next_token_logits", "hidden_states")),
    Symbol("sglang.kernels.ops.speculative.fused_kv_materialize", "_fused_norm_rope_stacked", why="K/V of FP8 drafts"),
    Symbol("sglang.srt.layers.logits_processor", "should_apply_lm_head_quant_method", why="quantised head"),
    Symbol("sglang.srt.distributed.communication_op", "tensor_model_parallel_all_gather", ("input_", "dim"), why="TP"),
    Symbol("sglang.srt.distributed.communication_op", "tensor_model_parallel_all_reduce", ("input_",), why="TP"),
    Symbol(f"{_SPEC}.dflash_utils", "is_dense_head_weight", ("weight",), why="dense head"),
    # worker
    Symbol(
        _WORKER,
        "DFlashWorkerV2.__init__",
        ("server_args", "gpu_id", "nccl_port", "target_worker"),
        attrs=(
            "_target_worker",
            "model_runner",
            "draft_model_runner",
            "draft_model",
            "selector",
            "block_size",
            "page_size",
            "device",
            "_mask_token_id",
            "_noise_embed_scale",
            "_need_mamba_verify_commit",
            "_tp_sync",
            "use_compact_draft_cache",
            "draft_window_size",
            "draft_parallel_layout",
            "_target_logits_processor",
            "_use_triton_compact_rebuild",
            "_draft_sampler",
            "_fused_kv_helper",
            "_use_fused_kv_materialize",
        ),
    ),
    Symbol(
        _WORKER,
        "DFlashWorkerV2.forward_batch_generation",
        ("batch", "on_publish", "grammar_barrier", "pp_proxy_tensors"),
        why="prefill and idle rounds",
    ),
    Symbol(_WORKER, "DFlashWorkerV2.init_cuda_graphs", ()),
    Symbol(_WORKER, "DFlashWorkerV2.init_attention_backends", ()),
    Symbol(_WORKER, "DFlashWorkerV2._maybe_build_draft_sampler", ()),
    Symbol(_WORKER, "DFlashWorkerV2._init_fused_kv_helper", (), why="K and V of an FP8 draft in one product"),
    Symbol(_WORKER, "DFlashWorkerV2._append_target_hidden_fused", ("ctx_hidden", "ctx_positions", "ctx_cache_loc")),
    Symbol(
        "sglang.kernels.ops.speculative.fused_kv_materialize",
        "_fused_norm_rope_stacked",
        ("kv", "k_norm_weight", "eps", "cos_sin_cache", "positions", "num_kv_heads", "head_dim", "rotary_dim"),
    ),
    Symbol("sglang.srt.layers.quantization.fp8", "Fp8LinearMethod.apply", ("layer", "x", "bias")),
    Symbol(_WORKER, "DFlashWorkerV2._draft_write_ids", ("plan",)),
    Symbol(
        _WORKER,
        "DFlashWorkerV2._append_target_hidden_to_draft_kv_by_loc",
        ("target_hidden", "cache_loc", "positions", "cache_loc_2d", "commit_lens"),
    ),
    Symbol(_WORKER, "DFlashWorkerV2._compute_compact_draft_seq_lens", ("seq_lens",)),
    Symbol(_WORKER, "DFlashWorkerV2._ensure_draft_block_buffers", ("bs",)),
    Symbol(
        _WORKER,
        "DFlashWorkerV2._rebuild_compact_draft_cache",
        ("req_pool_indices", "prefix_lens", "draft_prefix_lens", "verify_out_cache_loc_2d", "bs", "block_size"),
    ),
    Symbol(
        _WORKER, "DFlashWorkerV2._fill_compact_seq_lens_cpu_bound", ("batch_seq_lens_cpu", "nxt_kv_lens_cpu", "out")
    ),
    # one round
    Symbol(
        f"{_SPEC}.dflash_info",
        "DFlashVerifyInput",
        attrs=("draft_token", "positions", "draft_token_num", "custom_mask", "capture_hidden_mode", "kv_loc_plan"),
    ),
    Symbol(f"{_SPEC}.dflash_info", "DFlashVerifyInput.prepare_for_verify", ("batch", "target_worker")),
    Symbol(
        f"{_SPEC}.dflash_info_v2",
        "DFlashDraftInputV2",
        attrs=("bonus_tokens", "new_seq_lens", "nxt_kv_lens_cpu", "nxt_kv_lens_sum", "max_top_k"),
    ),
    Symbol(f"{_SPEC}.draft_worker_common", "make_draft_input_v2", ("bonus_tokens", "new_seq_lens")),
    Symbol(f"{_SPEC}.draft_worker_common", "make_draft_block_spec_info", ("draft_token_num", "device")),
    Symbol(
        "sglang.kernels.ops.speculative.cache_locs",
        "assign_extend_cache_locs_func",
        ("req_pool_indices", "req_to_token", "start_offset", "end_offset", "batch_size", "draft_token_num", "device"),
    ),
    Symbol(
        "sglang.srt.mem_cache.kv_index_translator",
        "KVIndexTranslator.plan",
        ("req_pool_indices", "seq_lens", "seq_lens_cpu", "write_virtual", "read_extent"),
    ),
    Symbol("sglang.srt.mem_cache.kv_loc_plan", "KVLocPlan.bind"),
    Symbol(
        "sglang.srt.model_executor.forward_batch_info",
        "ForwardBatch",
        attrs=(
            "forward_mode",
            "batch_size",
            "input_ids",
            "req_pool_indices",
            "seq_lens",
            "out_cache_loc",
            "seq_lens_sum",
            "seq_lens_cpu",
            "positions",
            "input_embeds",
            "spec_algorithm",
            "spec_info",
            "capture_hidden_mode",
            "can_run_decode_cuda_graph",
        ),
    ),
    Symbol("sglang.srt.model_executor.forward_batch_info", "CaptureHiddenMode"),
    Symbol("sglang.srt.model_executor.forward_batch_info", "ForwardMode"),
    Symbol("sglang.srt.model_executor.forward_batch_info", "enable_num_token_non_padded", ()),
    Symbol(
        "sglang.srt.managers.utils",
        "GenerationBatchResult",
        attrs=("accept_lens", "next_draft_input", "speculative_num_draft_tokens", "new_seq_lens"),
    ),
    Symbol(
        "sglang.srt.layers.logprob_processor",
        "compute_spec_logprobs",
        ("batch", "logits_output", "predict", "chain_stride"),
    ),
    Symbol(f"{_SPEC}.spec_sampling_mask", "SpeculativeSamplingMaskCapture.build_output"),
    Symbol(f"{_SPEC}.spec_tp_sync", "SpecTpSync.sync", ("site", "values"), why="rank 0 decides"),
    Symbol(f"{_SPEC}.spec_tp_sync", "SpecTpSync.enabled", ("site",), why="rank 0 decides"),
    Symbol(f"{_SPEC}.spec_tp_sync", "SpecTpSyncSite"),
    Symbol(f"{_SPEC}.spec_utils", "GrammarTree.from_linear_chain"),
    Symbol(f"{_SPEC}.spec_utils", "build_grammar_vocab_mask", ("reqs", "tree", "sampling_info", "device", "barrier")),
    Symbol(
        f"{_SPEC}.spec_utils",
        "commit_mamba_states_after_verify",
        ("target_worker", "batch", "accept_lens", "accept_index", "draft_token_num", "prepared_step_indices"),
        why="recurrent states of accepted steps, ReplaySSM fold included",
    ),
    Symbol(
        "sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode",
        "commit_gdn_replayssm_circular",
        (
            "checkpoint_state",
            "d_cache",
            "k_cache",
            "g_cache",
            "d_residual_cache",
            "k_residual_cache",
            "state_batch_indices",
            "replay_indices",
            "write_pos",
            "cache_base",
            "is_flush",
            "accept_lens",
            "mamba_track_indices",
            "mamba_steps_to_track",
            "null_block_id",
        ),
        why="replaced by our own fold (commit/ring.py)",
    ),
    Symbol("sglang.srt.runtime_context", "mamba_track_grid"),
    Symbol("sglang.srt.runtime_context", "get_exec"),
    Symbol("sglang.srt.runtime_context", "get_parallel"),
    Symbol("sglang.srt.runtime_context", "get_spec"),
    Symbol("sglang.srt.model_executor.cuda_graph_config", "Backend", why="are graphs on"),
    Symbol(f"{_SPEC}.spec_utils", "draft_tp_context", ("layout",)),
    Symbol(f"{_SPEC}.dflash_utils", "apply_dflash_simulated_acceptance", why="SGLANG_SIMULATE_ACC_LEN"),
    Symbol(
        "sglang.srt.sampling.sampling_batch_info",
        "SamplingBatchInfo",
        attrs=(
            "temperatures",
            "top_ps",
            "top_ks",
            "min_ps",
            "is_all_greedy",
            "acc_additive_penalties",
            "acc_scaling_penalties",
            "penalizer_orchestrator",
            "logit_bias",
            "has_custom_logit_processor",
        ),
    ),
    Symbol("sglang.srt.layers.sampler", "apply_custom_logit_processor"),
    # a verify width per round
    Symbol(
        f"{_SPEC}.base_spec_worker",
        "BaseSpecWorker.on_verify_complete_cpu",
        ("num_correct_drafts_per_req", "batch_size"),
    ),
    Symbol(f"{_RUNNERS}.model_runner", "ModelRunner._get_attention_backend", ("init_new_workspace",)),
    Symbol(f"{_RUNNERS}.model_runner", "ModelRunner._decode_cuda_graph_runner_cls", ()),
    Symbol(
        f"{_RUNNERS}.runner.decode_cuda_graph_runner",
        "DecodeCudaGraphRunner.__init__",
        ("model_runner", "attn_backend", "speculative_num_draft_tokens"),
        why="graphs of one width",
    ),
    Symbol(f"{_RUNNERS}.runner.decode_cuda_graph_runner", "DecodeCudaGraphRunner.capture_one_shape", ("size",)),
    Symbol("sglang.srt.mem_cache.kv_index_translator", "KVIndexTranslator.bind_and_verify_backends", ("backends",)),
    Symbol(f"{_SPEC}.spec_utils", "draft_pp_context", ()),
    Symbol("sglang.srt.utils.common", "get_available_gpu_memory"),
    Symbol("sglang.srt.plugins.hook_registry", "HookRegistry.apply_hooks", ()),
    Symbol(f"{_SCHEDULER}.internal_state", "SchedulerInternalStateController._add_speculative", ("state",)),
    Symbol(f"{_SCHEDULER}.internal_state", "SchedulerInternalStateController._update_handlers", ()),
    Symbol(f"{_SCHEDULER}.internal_state", "_UpdateHandler.__init__", ("validate", "apply"), why="forced widths"),
    Symbol(f"{_SCHEDULER}.internal_state", "UpdateRejected", why="forced widths"),
    Symbol(
        f"{_SCHEDULER}.metrics_reporter",
        "SchedulerMetricsReporter.report_decode_stats",
        why="acceptance rate against the widths used",
    ),
    Symbol(
        "sglang.srt.managers.tokenizer_manager",
        "TokenizerManager._calculate_spec_decoding_metrics",
        ("meta_info", "recv_obj", "i"),
        why="acceptance rate against the widths used",
    ),
    Symbol("sglang.srt.layers.sampler", "sampling_from_probs_torch", ("probs", "sampling_seed", "positions")),
    Symbol(
        "sglang.srt.layers.sampler",
        "top_k_top_p_min_p_sampling_from_probs_torch",
        ("probs", "top_ks", "top_ps", "min_ps", "need_min_p_sampling", "sampling_seed", "positions"),
        why="seeded requests",
    ),
    Symbol(
        "sglang.kernels.ops.attention.flash_attention",
        "flash_attn_with_kvcache",
        (
            "q",
            "k_cache",
            "v_cache",
            "page_table",
            "cache_seqlens",
            "cu_seqlens_q",
            "max_seqlen_q",
            "window_size",
            "ver",
        ),
        why="timing draft attention",
    ),
    Symbol(
        "sglang.kernels.ops.attention.extend_attention",
        "extend_attention_fwd",
        ("qo_indptr", "kv_indptr", "kv_indices", "sliding_window_size", "window_kv_offsets"),
        why="timing draft attention",
    ),
)
