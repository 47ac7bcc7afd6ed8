"""The scaling model: one GPU's parts add up to the whole, collectives are counted, and the page shows its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_dspine.bench.budget import H200, Stage, draft_round
from sglang_dspine.bench.collectives import (
    BROADCAST,
    GATHER,
    SUM,
    Collective,
    counts,
    naive_head_bytes,
    round_collectives,
)
from sglang_dspine.bench.rank_round import bridge_choice, draft_on, memory_gb, round_on
from sglang_dspine.bench.scaling import (
    BATCHES,
    LINK,
    RANKS,
    bridge_table,
    collective_table,
    memory_table,
    scaling_table,
)
from sglang_dspine.bench.target import TARGET_27B, verify_round

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scaling.md").read_text()


def stage(stages: list[Stage], name: str) -> Stage:
    return next(s for s in stages if s.name == name)


def test_one_gpu_is_the_budget_and_sends_nothing():
    alone = round_on(8, 16, 8192, 1)
    assert alone.draft == draft_round(8, 16, 8192) and alone.sent() == 0 and not alone.collectives


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", ["window attention", "head"])
def test_what_is_split_adds_up_to_the_whole(name, ranks):
    part, whole = stage(draft_on(8, 16, 8192, ranks), name), stage(draft_round(8, 16, 8192), name)
    assert ranks * part.flops == pytest.approx(whole.flops) and ranks * part.bytes == pytest.approx(whole.bytes)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", ["bridge", "accept", "walk"])
def test_what_every_rank_does_is_not_split(name, ranks):
    assert stage(draft_on(8, 16, 8192, ranks), name) == stage(draft_round(8, 16, 8192), name)


def test_the_target_has_27_billion_parameters():
    assert TARGET_27B.weights + 2 * TARGET_27B.vocab * TARGET_27B.hidden == pytest.approx(27e9, rel=0.01)


def test_kv_heads_are_split_no_further_than_there_are_heads():
    parts = [stage(verify_round(8, 16, 8192, ranks), "target attention").bytes for ranks in (4, 8)]
    assert parts[0] == parts[1] and parts[0] == pytest.approx(
        stage(verify_round(8, 16, 8192), "target attention").bytes / 4
    )


@pytest.mark.parametrize("ranks, sent", [(2, 100), (4, 150), (8, 175)])
def test_a_ring_sends_each_part_of_a_sum_twice(ranks, sent):
    assert Collective("", SUM, 1, 100).sent(ranks) == sent
    assert Collective("", GATHER, 2, 100).sent(ranks) == 200 * (ranks - 1)
    assert Collective("", BROADCAST, 3, 100).sent(ranks) == 300


def test_a_round_of_the_27b_pair_has_145_collectives_of_which_4_are_ours():
    found = round_collectives(8, 16, 2)
    assert counts(found) == {SUM: 2 * (64 + 5) + 2 + 1, GATHER: 2, BROADCAST: 2}
    assert sum(c.count for c in found if c.ours) == 4


def test_the_tables_sum_is_of_message_and_dot_and_a_tenth_of_head_rows():
    (found,) = [c for c in round_collectives(8, 16, 2) if c.name == "draft: head parts of the table"]
    assert found.bytes == 8 * 15 * 16 * (512 + 3) * 2
    assert 9.9 < naive_head_bytes(8, 16) / found.bytes < 10


def test_the_bridge_stays_whole_since_its_sums_leave_a_collective_less_than_1_5_us():
    """And from 8 users on nothing at all, by the vendor's rates."""
    for batch in BATCHES:
        for ranks in RANKS[1:]:
            spared, sent = bridge_choice(batch, 16, ranks, H200)
            left = (spared - sent / LINK) / 10
            assert left < (1.5e-6 if batch == 1 else 0)


def test_memory_of_one_gpu_is_the_drafters_and_falls():
    alone = memory_gb(1)
    assert sum(alone.values()) - alone["U"] == pytest.approx(2.32, rel=0.01)  # dspine-spec, "Symbols"
    assert sum(memory_gb(8).values()) < 0.4 * sum(alone.values())


@pytest.mark.parametrize("width", [16])
def test_the_page_shows_what_the_module_prints(width):
    for table in (
        scaling_table(width, 8192, H200, LINK),
        collective_table(8, width),
        bridge_table(width, H200, LINK),
        memory_table(),
    ):
        assert table in PAGE
