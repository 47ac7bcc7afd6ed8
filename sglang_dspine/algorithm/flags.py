"""Every server flag DSPINE touches: filled in from the checkpoint, checked, or refused with the right value.

`resolve` runs while SGLang resolves its arguments, on a stand-in whose reads are the values so far and whose
writes become declared defaults (arg_groups/overrides.py: record_foreign_defaults).
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from ..checkpoint.examine import examine_headers
from ..checkpoint.locate import locate_checkpoint
from ..checkpoint.view import servable_folder
from ..config import DraftConfig
from ..config.parse import load_config
from ..errors import FlagError
from ..widths.find import VARIABLE, find_table
from ..widths.plan import plan_widths
from ..widths.settings import WidthSettings
from .backends import draft_attention_backend
from .ring import require_ring

logger = logging.getLogger(__name__)
UNFUSED = "SGLANG_DISABLE_SILU_FP4_QUANT_FUSION"  # sglang models/qwen3_5.py
DEFAULT_MAX_RUNNING_REQUESTS = 48  # SGLang's own default for DFLASH


def resolve(args: Any) -> None:
    """Fill in and check all flags. Raises FlagError or CheckpointError before anything is loaded."""
    _refuse_unsupported(args)
    folder = _draft_folder(args)
    config = load_config(folder)
    _single_chain(args)
    _verify_width(args, config, folder)
    require_ring(args)
    _window(args, config)
    _draft_precision(args)
    _draft_attention(args)
    _marlin_input(args)
    if args.max_running_requests is None:
        args.max_running_requests = DEFAULT_MAX_RUNNING_REQUESTS
        logger.info("DSPINE: --max-running-requests not set, using %d", DEFAULT_MAX_RUNNING_REQUESTS)


def _refuse_unsupported(args: Any) -> None:
    """Combinations that SGLang gates by algorithm name, and would therefore let slip through for a plugin."""
    if args.pp_size != 1:
        raise FlagError(f"DSPINE needs --pp-size 1, found {args.pp_size}: the draft reads taps of every target layer")
    if getattr(args, "enable_dp_attention", False):
        raise FlagError("DSPINE does not support --enable-dp-attention; use data-parallel replicas instead")
    if getattr(args, "enable_lora", False) or getattr(args, "lora_paths", None):
        raise FlagError("DSPINE does not support LoRA: the draft was trained for the base target; drop --lora-paths")
    if getattr(args, "enable_streaming_session", False):
        raise FlagError(
            "--enable-streaming-session: SGLang 0.5.23's sessions count the last token of a turn as cached, which no "
            "verify step has written (with its own DFLASH too): the next turn's text would be wrong. Leave it out and "
            "send the whole conversation, of which the prefix cache keeps the start"
        )
    if getattr(args, "speculative_adaptive", False):
        raise FlagError("--speculative-adaptive is EAGLE's; DSPINE has its own width table")
    if getattr(args, "speculative_draft_sink_size", None):
        raise FlagError("--speculative-draft-sink-size: DSPINE drafts over a window without sinks; leave it unset")
    lazy = getattr(args, "mamba_radix_cache_strategy", None) == "extra_buffer_lazy"
    if lazy and getattr(args, "disable_overlap_schedule", False):
        raise FlagError(
            "--mamba-radix-cache-strategy extra_buffer_lazy needs the overlap schedule: drop "
            "--disable-overlap-schedule, or pass extra_buffer"
        )  # SGLang's assertion comes after the weights
    if args.speculative_draft_model_path is None:
        raise FlagError("DSPINE needs --speculative-draft-model-path: a DSpine checkpoint folder or repository id")


def _draft_folder(args: Any) -> Path:
    folder = locate_checkpoint(args.speculative_draft_model_path, args.speculative_draft_model_revision)
    if args.load_format != "dummy" and args.speculative_draft_load_format != "dummy":
        examine_headers(folder).raise_problems()  # minutes before the weights are read
    folder = servable_folder(folder)
    if str(folder) != args.speculative_draft_model_path:
        logger.info("DSPINE: draft checkpoint %s read from %s", args.speculative_draft_model_path, folder)
        args.speculative_draft_model_path = str(folder)
    return folder


def _single_chain(args: Any) -> None:
    """SGLang sizes its pools by EAGLE's numbers; a DSpine block is one chain drafted in one step."""
    for field, flag in (
        ("speculative_num_steps", "--speculative-num-steps"),
        ("speculative_eagle_topk", "--speculative-eagle-topk"),
    ):
        value = getattr(args, field)
        if value is not None and int(value) != 1:
            raise FlagError(f"{flag} {value}: DSPINE drafts one chain in one step; leave it unset or pass 1")
        setattr(args, field, 1)


def _verify_width(args: Any, config: DraftConfig, folder: Path) -> None:
    """`--speculative-num-draft-tokens` counts the anchor: 16 means 15 proposals (report 13). Unset, it becomes the
    widest width that the SPS table or DSPINE_WIDTHS can ask for, and SGLang sizes its pools by it."""
    block = config.block_size
    asked = {
        "--speculative-num-draft-tokens": args.speculative_num_draft_tokens,
        "--speculative-dflash-block-size": args.speculative_dflash_block_size,
    }
    widths = {flag: int(value) for flag, value in asked.items() if value is not None}
    if len(set(widths.values())) > 1:
        raise FlagError(f"{widths}: both name the verify width and must agree; the checkpoint's block is {block}")
    for flag, width in widths.items():
        if not 2 <= width <= block:
            raise FlagError(
                f"{flag} {width}: expected 2 to {block} (the anchor plus 1 to {block - 1} proposals of this "
                f"checkpoint); leave it unset for {block}"
            )
    named = getattr(args, "speculative_dspark_sps_table_path", None)
    settings, table = WidthSettings.read(), find_table(named, folder, _gpu_name(args.device))
    given = bool(named or os.environ.get(VARIABLE))
    plan = plan_widths(settings, table, next(iter(widths.values()), None), block, given)
    args.speculative_dspark_sps_table_path = str(Path(plan.table.where).resolve()) if plan.uses_table else None
    args.speculative_num_draft_tokens = plan.widest
    if plan.uses_table:
        status = plan.table.provenance.get("status")
        logger.info("DSPINE: SPS table %s (%s)%s", plan.table.where, plan.table.gpu, f": {status}" if status else "")
    elif table is None and not widths and not settings.chosen:
        logger.warning(
            "DSPINE: no SPS table for this GPU, every batch is verified at width %d; under load another width may be "
            "faster: run sps-tuning/tune_sps.py, then name its table in %s", plan.widest, VARIABLE,
        )  # fmt: skip


def _gpu_name(device: str) -> str | None:
    import torch

    return torch.cuda.get_device_name() if device.startswith("cuda") else None


def _window(args: Any, config: DraftConfig) -> None:
    window = args.speculative_draft_window_size
    if window is None:
        return
    if int(window) < args.speculative_num_draft_tokens:
        raise FlagError(
            f"--speculative-draft-window-size {window} is smaller than the verify width "
            f"{args.speculative_num_draft_tokens}"
        )
    if config.sliding_window is not None and int(window) > config.sliding_window:
        raise FlagError(
            f"--speculative-draft-window-size {window} is beyond the {config.sliding_window} positions this draft was "
            "trained with; leave it unset"
        )
    logger.info(
        "DSPINE: drafting over the last %s positions; SGLang's warning that --speculative-draft-window-size has no "
        "effect speaks of its own algorithms",
        window,
    )


def _draft_precision(args: Any) -> None:
    """The draft's precision is its own: SGLang would let it inherit the target's (reports 7 and 9)."""
    if not args._speculative_draft_quantization_explicitly_set and args.speculative_draft_model_quantization:
        logger.info(
            "DSPINE: draft quantisation %r would be inherited from the target; the draft stays in the checkpoint's "
            "precision (pass --speculative-draft-model-quantization to choose)",
            args.speculative_draft_model_quantization,
        )
        args.speculative_draft_model_quantization = None
    allowed = (None, "unquant", "fp8")
    if args.speculative_draft_model_quantization not in allowed:
        raise FlagError(
            f"--speculative-draft-model-quantization {args.speculative_draft_model_quantization}: DSPINE serves its "
            "draft as 'fp8' or 'unquant'"
        )
    if args.speculative_draft_kv_cache_dtype is None:
        args.speculative_draft_kv_cache_dtype = "auto"  # the draft's own compute dtype, not the target's KV dtype


def _draft_attention(args: Any) -> None:
    if args.speculative_draft_attention_backend is not None:
        return
    choice = draft_attention_backend(_capability(args.device))
    args.speculative_draft_attention_backend = choice.backend
    logger.info("DSPINE: draft attention backend %s (%s)", choice.backend, choice.reason)


def _marlin_input(args: Any) -> None:
    """SGLang's Qwen3.5 hands down_proj its input in FP4 whichever backend multiplies; Marlin takes BF16 alone, and the
    first forward would end in "'tuple' object has no attribute 'dtype'"."""
    if args.fp4_gemm_runner_backend == "marlin" and os.environ.setdefault(UNFUSED, "1") != "1":
        raise FlagError(f"{UNFUSED}={os.environ[UNFUSED]} with --fp4-gemm-backend marlin: unset it or set it to 1")


def _capability(device: str) -> tuple[int, int] | None:
    import torch

    if not device.startswith("cuda"):
        return None
    return torch.cuda.get_device_capability()
