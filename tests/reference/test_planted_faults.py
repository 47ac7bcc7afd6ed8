"""Each fault that a drafter can have unnoticed is planted here, and a test of this folder sees it."""

import dataclasses
import math
import sys
import types

import pytest
import torch

from sglang_dspine.reference import LowRank, accept, backbone, bridge, candidates, drafter, table, walk

from . import test_accept, test_backbone, test_bridge, test_candidates, test_golden, test_table, test_walk


def plant(monkeypatch, original, faulty):
    """Replace a function under every name by which the reference or its tests call it."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if name.startswith("sglang_dspine.reference") or name.startswith(__package__):
            for key, value in list(vars(module).items()):
                if value is original:
                    monkeypatch.setattr(module, key, faulty)


def block_sees_the_future(mp):
    def faulty(query, key, start, window, seen=backbone.visible):
        last = query.amax(-1, keepdim=True).expand_as(query)
        return seen(query, key, start, window) | (seen(last, key, start, window) & (key >= start[:, None, None]))

    plant(mp, backbone.visible, faulty)


def window_hides_one_position_more(mp):
    def faulty(query, key, start, window, seen=backbone.visible):
        return seen(query, key, start, window and window - 1)

    plant(mp, backbone.visible, faulty)


def window_hides_rows_of_the_block(mp):
    def faulty(query, key, start, window, seen=backbone.visible):
        return seen(query, key, start + query.shape[1], window)

    plant(mp, backbone.visible, faulty)


def context_keys_one_position_late(mp):
    def faulty(x, positions, *rest, right=backbone.keys_and_values):
        return right(x, positions + (positions[:, :1] == 0), *rest)

    plant(mp, backbone.keys_and_values, faulty)


def captured_layers_off_by_one(mp):
    def faulty(taps, weights, config, *rest, right=backbone.project_context):
        return right(taps.roll(config.hidden_size, -1), weights, config, *rest)

    plant(mp, backbone.project_context, faulty)


def anchor_row_masked(mp):
    mp.setattr(drafter.Drafter, "block_tokens", lambda self, anchor, rows: anchor.new_full((len(anchor), rows), 7))


def anchor_row_written(mp):
    def faulty(h, anchor, *rest, right=bridge.inject):
        written = right(torch.cat((h[:, :1], h), dim=1), anchor, *rest)
        return torch.cat((written[:, 1:2], right(h, anchor, *rest)[:, 1:]), dim=1)

    plant(mp, bridge.inject, faulty)


def first_row_hears_the_anchors_state(mp):
    plant(mp, bridge.predecessors, lambda f, anchor, codes: f[:, :-1])


def predecessor_code_off_by_one(mp):
    def faulty(ids, codes, right=bridge.code_features):
        return right((ids + 1) % len(codes), codes)

    plant(mp, bridge.code_features, faulty)


def predecessor_is_the_row_itself(mp):
    def faulty(f, anchor, codes, right=bridge.predecessors):
        return right(f.roll(-1, dims=1), anchor, codes)

    plant(mp, bridge.predecessors, faulty)


def write_not_scaled(mp):
    def faulty(h, *rest, right=bridge.bridge_write):
        return h + (right(h, *rest) - h) * math.sqrt(h.shape[-1])

    plant(mp, bridge.bridge_write, faulty)


def zero_state_divided_by_zero(mp):
    def faulty(h, readout, arithmetic=bridge.DEFAULT):
        f = h @ readout.mT
        return math.sqrt(len(readout)) * f / f.norm(dim=-1, keepdim=True)

    plant(mp, bridge.features, faulty)


def padded_vocabulary_wins(mp):
    mp.setattr(candidates, "math", types.SimpleNamespace(inf=-math.inf))


def ties_to_the_highest_id(mp):
    right = torch.sort

    def faulty(x, **options):
        found = right(x.flip(-1), **options).indices
        return types.SimpleNamespace(indices=x.shape[-1] - 1 - found)

    mp.setattr(candidates, "torch", types.SimpleNamespace(sort=faulty))


def table_reads_its_own_rows_candidates(mp):
    plant(mp, table.predecessor_ids, lambda candidates, anchor: candidates)


def table_reads_states_after_the_injection(mp):
    states = drafter.DraftStates
    mp.setattr(drafter, "DraftStates", lambda hidden, before, seen: states(hidden, hidden, seen))


def unary_score_added(mp):
    def faulty(x, ids, anchor, refiner, *rest, right=table.transition_table_direct):
        unary = (x.unsqueeze(-2) * refiner.head[ids]).sum(-1)
        return right(x, ids, anchor, refiner, *rest) + unary.unsqueeze(-2)

    plant(mp, table.transition_table_direct, faulty)


def low_rank_without(field):
    def fault(mp):
        prepare = LowRank.prepare

        def faulty(*args, **options):
            made = prepare(*args, **options)
            neutral = torch.ones_like if field == "norm" else torch.zeros_like
            return dataclasses.replace(made, **{field: neutral(getattr(made, field))})

        mp.setattr(LowRank, "prepare", faulty)

    fault.__name__ = f"low_rank_without_{field}"
    return fault


def drawn_at_another_temperature_than_q(mp):
    plant(mp, walk.draw, lambda law, u, right=walk.draw: right(law ** (1 / 1.1), u))


def greedy_blocks_drawn(mp):
    plant(mp, walk.conditional, lambda s, t, right=walk.conditional: right(s, t.clamp(min=1e-1)))


def walk_forgets_its_predecessor(mp):
    def faulty(scores, *rest, right=walk.sampled_walk):
        return right(scores[:, :, :1].expand_as(scores), *rest)

    plant(mp, walk.sampled_walk, faulty)


def refused_row_drawn_from_the_target(mp):
    plant(mp, accept.residual, lambda p, q: p)


def added_token_of_the_row_before(mp):
    def faulty(proposals, count, added, right=accept.emit):
        return right(proposals, count, added.roll(1, -1))

    plant(mp, accept.emit, faulty)


def one_proposal_too_many_stands(mp):
    def faulty(proposals, count, added, right=accept.emit):
        return right(proposals, (count + 1).clamp(max=proposals.shape[1]), added)

    plant(mp, accept.emit, faulty)


def raw(test, **arguments):
    """One fixed case of a test, with no search for a smaller one."""
    inner = test.hypothesis.inner_test if hasattr(test, "hypothesis") else test
    return lambda: inner(**arguments)


def golden(case):
    return raw(test_golden.test_every_key_is_reproduced, case=case, dtype="f64", index=1)


future = raw(test_backbone.test_future_rows_cannot_change_a_row, case="full", seed=0, row=5)
window = raw(test_backbone.test_a_window_hides_old_context_and_never_a_row_of_the_block, window=12)
unwritten = raw(test_bridge.test_the_anchor_row_is_never_written, case="full")
equations = raw(test_bridge.test_injection_follows_its_equations, seed=0, rows=4, layer=0)
neighbours = test_bridge.test_a_write_reaches_one_row_further_and_no_more
code = test_bridge.test_the_row_after_the_anchor_hears_its_code_and_not_its_state
scale = raw(test_bridge.test_features_forget_the_scale_and_writes_keep_it, seed=0, factor=3.0)
zero = raw(test_bridge.test_zero_states_stay_finite_and_zero, dtype=torch.float32)
ties = raw(test_candidates.test_candidates_are_the_best_scores_with_ties_to_the_lowest_id, seed=0, top_k=9, padding=0)
entries = raw(test_table.test_each_entry_is_the_head_score_after_an_injection_with_that_predecessor, seed=0)
low_rank = raw(test_table.test_low_rank_equals_direct_in_float64, seed=0, scale=1.0, size=1.0)
shares = raw(test_walk.test_the_share_of_uniforms_that_draw_a_candidate_is_its_q, seed=0, spread=2)
mixed = raw(test_walk.test_greedy_and_sampled_blocks_share_a_batch, uniform=0.0)
softmax = raw(test_walk.test_q_sums_to_one_and_is_the_softmax_of_the_row_walked_into, seed=0, temperature=1.0, spread=1)
law = raw(test_accept.test_rejection_sampling_emits_the_targets_distribution, seed=0, temperature=1.0, top_k=None)
greedy = raw(test_accept.test_greedy_accept_keeps_the_common_prefix_and_adds_the_targets_token, seed=0, width=6)

FAULTS = [
    (block_sees_the_future, [future, golden("full"), golden("window")]),
    (window_hides_one_position_more, [window, golden("window")]),
    (window_hides_rows_of_the_block, [window, golden("window")]),
    (context_keys_one_position_late, [golden("full")]),
    (captured_layers_off_by_one, [golden("full"), golden("window")]),
    (anchor_row_masked, [golden("full")]),
    (anchor_row_written, [unwritten, equations, golden("full")]),
    (first_row_hears_the_anchors_state, [code, equations, golden("full")]),
    (predecessor_code_off_by_one, [equations, entries, golden("full")]),
    (predecessor_is_the_row_itself, [neighbours, equations, golden("full")]),
    (write_not_scaled, [equations, golden("full")]),
    (zero_state_divided_by_zero, [zero]),
    (padded_vocabulary_wins, [test_candidates.test_padded_vocabulary_never_wins]),
    (ties_to_the_highest_id, [ties]),
    (table_reads_its_own_rows_candidates, [entries, golden("full")]),
    (table_reads_states_after_the_injection, [golden("full")]),
    (unary_score_added, [entries, golden("full")]),
    *((low_rank_without(field), [low_rank]) for field in ("norm", "gram", "head_seen", "gate_of", "bias")),
    (drawn_at_another_temperature_than_q, [shares]),
    (greedy_blocks_drawn, [mixed]),
    (walk_forgets_its_predecessor, [softmax, golden("full")]),
    (refused_row_drawn_from_the_target, [law]),
    (added_token_of_the_row_before, [greedy]),
    (one_proposal_too_many_stands, [greedy, law]),
]


@pytest.mark.parametrize(("fault", "checks"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_planted_fault_is_seen(fault, checks, monkeypatch):
    for check in checks:
        check()  # sound before
    fault(monkeypatch)
    for check in checks:
        with pytest.raises(AssertionError):
            check()
