"""One decode round: draft a block, verify it, decide, commit."""

from __future__ import annotations

from typing import Any

import torch

from ..commit.recurrent import commit_recurrent
from ..draft.block import Block, prepare_block
from ..draft.forward import draft_forward
from ..verify.adjust import adjust_logits
from ..verify.decide import Decision, decide
from ..verify.filter import target_distribution
from ..verify.forward import verify_forward
from ..verify.repair import repair_adjusted, repair_rows


def decode_round(worker: Any, batch: Any, on_publish: Any, grammar_barrier: Any) -> Any:
    """Advance every request of the batch by its accepted length, at the width that the policy gives this round.

    Returns SGLang's GenerationBatchResult: `next_token_ids` [N*w] in strides of the width, `accept_lens` [N].
    """
    width = worker.widths.choose(len(batch.seq_lens))
    with worker.widths.stage(width):
        return _round(worker, batch, width, on_publish, grammar_barrier)


def _round(worker: Any, batch: Any, width: int, on_publish: Any, grammar_barrier: Any) -> Any:
    # carried over from the previous overlap iteration, possibly produced on another stream
    batch.seq_lens.record_stream(torch.get_device_module(worker.device).current_stream())
    draft_input = batch.spec_info
    block = prepare_block(batch, draft_input, worker.model_runner, width, worker._mask_token_id)
    before = block.prefix_lens.clone()

    tokens = propose(worker, batch, draft_input, block)
    tree = _grammar_tree(batch, tokens)  # starts its copy to the host before the verify launch
    result = verify_forward(worker, batch, draft_input, block, tokens)
    output = result.logits_output
    worker.widths.ran("target", bool(result.can_run_cuda_graph), len(before), width)
    decision = _decide(worker, batch, draft_input, block, tokens, output.next_token_logits, tree, grammar_barrier)
    commit_lens = decision.commit_lens
    worker.penalties.emitted(batch, decision.out_tokens, commit_lens)
    new_lens = before + commit_lens.to(before.dtype)
    _returned_logprobs(batch, output, decision, draft_input, width)

    if worker._need_mamba_verify_commit:
        commit_recurrent(worker.target_worker, batch, before, commit_lens, width, worker.history_room)
    if on_publish is not None:
        on_publish(new_lens)
    _commit_context(worker, block, output.hidden_states, commit_lens)
    output.hidden_states = None  # large, and nobody reads them on the host
    return _batch_result(worker, result, decision, new_lens, width)


def propose(worker: Any, batch: Any, draft_input: Any, block: Block) -> torch.Tensor:
    """Draft the block. Returns [N, w]: the anchor and its proposals; at width 1, plain decode, the anchor alone."""
    n, w = block.ids.shape
    worker.draft_model.width = w
    if w == 1:
        return block.ids
    proposer = worker.draft_model.proposer
    proposer.stage(n, batch.sampling_info)
    in_graph = draft_forward(worker, batch, draft_input, block, worker.embed(block.ids))
    worker.widths.ran("draft", in_graph, n, w)
    return torch.cat([block.ids[:, :1], proposer.tokens[:n, : w - 1]], 1)


def _decide(
    worker: Any,
    batch: Any,
    draft_input: Any,
    block: Block,
    tokens: torch.Tensor,
    logits: torch.Tensor,
    tree: Any,
    barrier: Any,
) -> Decision:
    from sglang.srt.speculative.spec_utils import build_grammar_vocab_mask

    n, w = tokens.shape
    causes = repair_rows(logits)
    mask = None
    if tree is not None:
        mask = build_grammar_vocab_mask(
            reqs=batch.reqs, tree=tree, sampling_info=batch.sampling_info, device=logits.device, barrier=barrier
        )
    if adjust_logits(logits, tokens, batch.sampling_info, worker.penalties.of(batch), mask):
        causes = torch.maximum(causes, repair_adjusted(logits))
    proposer = worker.draft_model.proposer
    decision = decide(
        tokens,
        logits,
        batch.sampling_info,
        proposer.candidates[:n, : w - 1],
        proposer.q[:n, : w - 1],
        block.positions,
        draft_input.max_top_k,
    )
    if decision.repaired is not None:
        causes = torch.maximum(causes, decision.repaired)
    worker.repairs.note(causes.view(n, w), [req.rid for req in batch.reqs])
    decision = worker.simulation(tokens, decision) if worker.simulation else decision
    greedy = batch.sampling_info is None or batch.sampling_info.is_all_greedy
    return worker.agreement.decision(decision, tokens, greedy)


def _grammar_tree(batch: Any, tokens: torch.Tensor) -> Any:
    if not batch.has_grammar:
        return None
    from sglang.srt.speculative.spec_utils import GrammarTree

    return GrammarTree.from_linear_chain(tokens)


def _returned_logprobs(batch: Any, output: Any, decision: Decision, draft_input: Any, width: int) -> None:
    """Logprobs and sampling masks of the rows that produced the emitted tokens (report 23)."""
    from sglang.srt.layers.logprob_processor import compute_spec_logprobs

    info = batch.sampling_info
    if info is not None and info.sampling_mask_batch_indices is not None:
        law = None  # greedy
        if not info.is_all_greedy:
            law = target_distribution(output.next_token_logits, info, width, draft_input.max_top_k)
        output.sampling_mask_output = sampling_masks(info, law, decision)
    if batch.return_logprob:
        compute_spec_logprobs(batch, output, decision.out_tokens.reshape(-1), chain_stride=width)


def sampling_masks(info: Any, law: torch.Tensor | None, decision: Decision) -> Any:
    """The tokens that could have been drawn in each row, by the law that they were drawn from: `from_logits` would
    renormalise between top-k and top-p, and could leave out a token that was emitted (report 21).

    law: [N, w, V], None where every request is greedy.
    """
    from sglang.srt.speculative.spec_sampling_mask import SpeculativeSamplingMaskCapture

    capture = SpeculativeSamplingMaskCapture(
        target_probs=law,
        batch_indices=info.sampling_mask_batch_indices,
        max_top_k=max(info.sampling_mask_top_ks),
        support_capture_indices=info.sampling_support_logprobs_capture_indices,
    )
    return capture.build_output(out_tokens=decision.out_tokens, commit_lens=decision.commit_lens)


def _commit_context(worker: Any, block: Block, taps: torch.Tensor, commit_lens: torch.Tensor) -> None:
    """Project the taps of committed rows into the draft's KV at the target's own slots; rejected rows write nothing."""
    slots = worker._draft_write_ids(block.plan)
    worker._append_target_hidden_to_draft_kv_by_loc(
        target_hidden=taps.reshape(block.ids.numel(), -1),
        cache_loc=slots,
        cache_loc_2d=slots.view(block.cache_loc.shape),
        positions=block.positions.flatten(),
        commit_lens=commit_lens,
    )


def _batch_result(worker: Any, result: Any, decision: Decision, new_lens: torch.Tensor, width: int) -> Any:
    from sglang.srt.managers.utils import GenerationBatchResult
    from sglang.srt.speculative.draft_worker_common import make_draft_input_v2

    return GenerationBatchResult(
        logits_output=result.logits_output,
        next_token_ids=decision.out_tokens.reshape(-1),
        accept_lens=decision.commit_lens,
        can_run_cuda_graph=result.can_run_cuda_graph,
        next_draft_input=make_draft_input_v2(bonus_tokens=decision.bonus, new_seq_lens=new_lens),
        speculative_num_draft_tokens=width,
        cap_lens=worker.widths.cap_lens(len(new_lens), width),
        new_seq_lens=new_lens,
        routed_experts_output=result.routed_experts_output,
        indexer_topk_output=result.indexer_topk_output,
    )
