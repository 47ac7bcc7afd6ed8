"""Run the start-up self-check on the served draft: real attention, real pools, no request."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ..checkpoint.examine import examine_headers
from ..checkpoint.lazy import LazyWeights
from ..draft.block import prepare_block
from ..draft.forward import run_draft
from ..model.self_check import CONTEXT, Findings, Probe, compare, linear_errors, make_probe
from ..reference.layerwise import layerwise_states

logger = logging.getLogger(__name__)
SWITCH = "DSPINE_SELF_CHECK"


def self_check(worker: Any) -> Findings | None:
    """Compare the loaded draft with its checkpoint; None when the check is off or there is nothing to compare with.

    Raises:
        DSpineError: the draft computes something else than the checkpoint's weights do.
    """
    model = worker.draft_model
    folder = Path(getattr(model.config, "_name_or_path", "") or "")
    why = _why_not(worker, folder)
    if why:
        logger.info("DSPINE: self-check of the draft left out: %s", why)
        return None
    begin = time.monotonic()
    try:
        findings = measure(worker, folder)
    except torch.cuda.OutOfMemoryError:
        logger.warning("DSPINE: self-check of the draft left out: no GPU memory for one layer of the checkpoint")
        return None
    finally:
        torch.cuda.empty_cache()
    logger.info("DSPINE: self-check of the draft: %s; %.1f s", findings, time.monotonic() - begin)
    findings.require()
    return findings


@torch.inference_mode()
def measure(worker: Any, folder: Path) -> Findings:
    """Draft the probe as served and by the reference."""
    probe, head = make_probe(worker.draft_model.dspine), worker.draft_model.proposer.head
    linears: dict[str, float] = {}
    served, reference = served_states(worker, probe), reference_states(worker, probe, folder, linears)
    return compare(served, reference, lambda states: head.top_k(states, 1)[:, 0], linears)


def _why_not(worker: Any, folder: Path) -> str:
    args = worker.server_args
    if os.environ.get(SWITCH, "1") == "0":
        return f"{SWITCH}=0"
    if "dummy" in (args.load_format, args.speculative_draft_load_format):
        return "the draft's weights are dummies"
    if worker.use_compact_draft_cache and int(worker.draft_window_size) < CONTEXT + int(worker.block_size):
        return f"--speculative-draft-window-size {worker.draft_window_size} is shorter than the probe"
    if not folder.is_dir():
        return f"{folder} is no folder to read the checkpoint from"
    return ""


def served_states(worker: Any, probe: Probe) -> torch.Tensor:
    """Block states after the final norm, from the draft as it serves, graph included, block by block. [N, w, H]"""
    row = worker.model_runner.req_to_token_pool.req_to_token[-1]
    kept = row.clone()
    try:
        blocks = zip(probe.taps, probe.anchors, probe.lengths.tolist(), strict=True)
        return torch.stack([_draft(worker, taps[:length], anchor, length) for taps, anchor, length in blocks])
    finally:
        row.copy_(kept)


def _draft(worker: Any, taps: torch.Tensor, anchor: torch.Tensor, length: int) -> torch.Tensor:
    """Write the context of one block into free slots of the draft's pool, and draft behind it. [w, H]"""
    runner, device, width = worker.model_runner, worker.device, int(worker.block_size)
    # no request runs yet, so every slot is free; the first page is SGLang's padding
    slots = torch.arange(worker.page_size, worker.page_size + length + width, device=device)
    table = runner.req_to_token_pool.req_to_token
    table[-1, : len(slots)] = slots.to(table.dtype)
    index, lengths = torch.tensor([len(table) - 1], device=device), torch.tensor([length], device=device)
    plan = runner.kv_index_translator.plan(
        req_pool_indices=index,
        seq_lens=lengths,
        seq_lens_cpu=lengths.cpu(),
        write_virtual=slots[:length],
        read_extent=0,
    )
    worker._append_target_hidden_to_draft_kv_by_loc(
        target_hidden=taps.to(device=device, dtype=runner.dtype),
        cache_loc=worker._draft_write_ids(plan),
        positions=torch.arange(length, device=device),
    )
    batch = SimpleNamespace(
        seq_lens=lengths, seq_lens_cpu=lengths.cpu(), req_pool_indices=index, sampling_info=None, reqs=[],
        can_run_decode_cuda_graph=worker.graphs_on,
    )  # fmt: skip
    draft_input = SimpleNamespace(bonus_tokens=anchor[None].to(device), nxt_kv_lens_cpu=None)
    block = prepare_block(batch, draft_input, runner, width, worker._mask_token_id)
    worker.draft_model.proposer.stage(1, None)
    worker.draft_model.width = width
    output = run_draft(worker, batch, draft_input, block, worker.embed(block.ids)).logits_output
    return output.hidden_states[:width].clone()  # a graph would overwrite it


def reference_states(worker: Any, probe: Probe, folder: Path, linears: dict[str, float]) -> torch.Tensor:
    """The same blocks by the reference on the checkpoint's BF16 values, a layer at a time. [N, w, H]

    Fills `linears` with the relative error of each served linear layer, unless they are split over ranks.
    """
    model, dtype = worker.draft_model, worker.model_runner.dtype
    read = LazyWeights(examine_headers(folder), dtype, worker.device)

    def watched(*prefixes: str) -> Mapping[str, torch.Tensor]:
        weights = read(*prefixes)
        if model.proposer.head.ranks is None:
            linears.update(linear_errors(model, weights))
        return weights

    device = torch.device(worker.device)
    anchors = probe.anchors.to(device)
    ids = anchors[:, None].repeat(1, int(worker.block_size))
    ids[:, 1:] = worker._mask_token_id
    codes = read.rows("transfer_codes", probe.anchors.tolist())
    with device:  # the reference makes its index tensors where it is told to
        states = layerwise_states(
            worker.embed(ids), probe.taps.to(device, dtype), codes, probe.lengths.to(device), model.dspine, watched
        )
    return states.block_hidden
