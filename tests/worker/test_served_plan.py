"""All ranks of a server have one plan of widths, or none starts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch.distributed
from sglang.srt import runtime_context

from sglang_dspine.errors import DSpineError
from sglang_dspine.worker.served_plan import served_plan


@pytest.fixture
def ranks(monkeypatch, tmp_path):
    """Two ranks; `other(own)` says what the other one holds."""
    path = tmp_path / "sps.json"
    raw = {"version": 1, "widths": [12, 8], "provenance": {"gpu": "g", "source": "s"}}
    path.write_text(json.dumps(raw))
    group = SimpleNamespace(world_size=2, cpu_group=None)
    state = SimpleNamespace(other=lambda own: own)

    def gather(found, own, group):
        found[:] = [own, state.other(own)]

    for name in ("DSPINE_WIDTH_POLICY", "DSPINE_WIDTHS"):
        monkeypatch.delenv(name, raising=False)
    spec = SimpleNamespace(speculative_dspark_sps_table_path=str(path))
    monkeypatch.setattr(runtime_context, "get_spec", lambda: spec)
    monkeypatch.setattr(runtime_context, "get_parallel", lambda: SimpleNamespace(tp_group=group))
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    state.spec = spec
    return state


def test_the_table_that_the_flags_wrote_down_is_served(ranks):
    plan = served_plan(None, block=16, widest=12)
    assert (plan.policy.name, plan.widest, plan.all_widths) == ("table", 12, (8, 12))


def test_without_one_every_batch_has_the_width_the_flags_settled_on(ranks):
    ranks.spec.speculative_dspark_sps_table_path = None
    assert served_plan(None, block=16, widest=7).all_widths == (7,)


def test_ranks_with_different_tables_do_not_start(ranks):
    ranks.other = lambda own: own.replace("(12, 8)", "(12, 4)")
    with pytest.raises(DSpineError, match="rank 1 plans other verify widths"):
        served_plan(None, block=16, widest=12)
