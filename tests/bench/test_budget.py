"""The budget counts what the published sizes say, and a floor is the larger of its two terms."""

from __future__ import annotations

import pytest

from sglang_dspine.bench.budget import BATCHES, GB10, H200, Machine, Stage, draft_round, floor_of, table
from sglang_dspine.kernels.shape import SHAPE_27B


def stage(name: str, batch: int = 1, width: int = 8, context: int = 8192) -> Stage:
    return next(s for s in draft_round(batch, width, context) if s.name == name)


def test_layers_and_fc_hold_the_published_number_of_parameters():
    """5 x 319.8 M + 131 M (dspine-spec, "Symbols")."""
    assert SHAPE_27B.layer_weights == pytest.approx(319.8e6, rel=1e-3)
    fc = SHAPE_27B.taps * SHAPE_27B.hidden**2
    assert 5 * SHAPE_27B.layer_weights + fc == pytest.approx(1.730e9, rel=1e-3)


@pytest.mark.parametrize("context, megabytes", [(1024, 21), (8192, 168), (100_000, 168)])
def test_draft_kv_of_one_user_is_what_the_window_holds(context, megabytes):
    assert stage("window attention", context=context).bytes / 1e6 == pytest.approx(megabytes, rel=0.02)


def test_a_floor_is_the_larger_of_its_bytes_and_its_flops():
    machine = Machine("m", bandwidth=10.0, bf16=100.0, fp8=1000.0)
    assert Stage("s", 50, 100).floor(machine) == 5.0
    assert Stage("s", 50, 800).floor(machine) == 8.0
    assert Stage("s", 50, 8000, fp8=True).floor(machine) == 8.0


def test_weights_are_read_once_however_many_users_there_are():
    one, many = stage("layers").bytes, stage("layers", batch=32).bytes
    assert many < 1.2 * one


def test_the_low_rank_table_reads_the_candidates_rows_and_little_else():
    """15 x 16 rows of 5,120 numbers a user, in BF16."""
    rows = 2 * 15 * 16 * 5120
    assert rows < stage("table", 32, 16).bytes / 32 < 1.6 * rows


def test_a_projection_is_labelled_one():
    assert "projected" in GB10.name and "nominal" in H200.name


def test_the_table_has_a_line_a_stage_and_their_sum():
    lines = table(8, 8192, [H200]).splitlines()
    assert len(lines) == 2 + len(draft_round(1, 8, 8192)) + 1
    total = sum(s.floor(H200) for s in draft_round(BATCHES[0], 8, 8192))
    assert f"| {1e6 * total:,.0f} |" in lines[-1]
    assert floor_of("bridge", 1, 8, 8192, H200) < total
