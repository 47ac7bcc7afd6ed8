"""Each fault of the protocol is planted into a running server, and a named check sees it (docs/planted-faults.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sglang_dspine.exactness.faults import FAULTS, planted, without_injector

from ..support import pairs
from ..support import planted as injectors
from ..support.engine import Request
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.reference_rounds import Comparison, compare
from ..support.round_log import logged_rounds

TABLE = Path(__file__).resolve().parents[2] / "docs" / "planted-faults.md"
STEPS = 24


def text_is_the_targets(engine) -> None:
    """Every greedy token is transformers' top-1 in float32 (E1)."""
    for ids, out in _generate(engine, temperature=0):
        assert_greedy(engine.model_runner.server_args.model_path, ids, out.output_ids)


def proposals_are_the_references(engine) -> None:
    """Proposals and table rows of every round equal the reference's on the served text."""
    result = Comparison()
    with logged_rounds() as log:
        pairs_of = _generate(engine, temperature=0)
    for _, out in pairs_of:
        text = [*out.req.origin_input_ids, *out.req.output_ids]
        compare(pairs.demo(), text, [r for r in log.of(out.rid) if r.length + 1 < len(text)], result)
    result.holds()


def q_is_the_law_drawn_from(engine) -> None:
    """q of every sampled round is the softmax of the table's row after the token before, at the request's temperature,
    as the reference's walk has it."""
    from sglang_dspine.reference.walk import conditional

    with logged_rounds() as log:
        outputs = _generate(engine, temperature=0.8)
    rounds = [r for _, out in outputs for r in log.of(out.rid)]
    assert rounds and {round(r.temperature, 5) for r in rounds} == {0.8}
    for r in rounds:
        place = 0
        for row, token in enumerate(r.proposals):
            law = conditional(r.scores[row, place][None], torch.tensor([r.temperature]))[0]
            torch.testing.assert_close(r.q[row].double(), law, rtol=1e-4, atol=1e-6)
            place = int((r.candidates[row] == token).nonzero()[0])
            assert r.q[row, place] > 0


CHECKS = {
    "state-one-early": text_is_the_targets,
    "state-one-late": text_is_the_targets,
    "block-not-causal": proposals_are_the_references,
    "anchor-masked": proposals_are_the_references,
    "taps-off-by-one": proposals_are_the_references,
    "positions-off-by-one": proposals_are_the_references,
    "q-of-another-temperature": q_is_the_law_drawn_from,
    "q-swapped": q_is_the_law_drawn_from,
    "bonus-of-wrong-row": text_is_the_targets,
    "rejected-draft-kv-kept": proposals_are_the_references,
}


def _generate(engine, temperature: float):
    engine.flush()
    prompts = held_out_code(2, 150)
    sampling = {"max_new_tokens": STEPS, "ignore_eos": True, "temperature": temperature}
    return list(zip(prompts, engine.generate([Request(ids, sampling) for ids in prompts]), strict=True))


@pytest.fixture
def server(engines):
    return pairs.demo().served(engines, **EXTRA_BUFFER)


@pytest.mark.parametrize("fault", CHECKS)
def test_a_planted_fault_is_caught(server, fault):
    check = CHECKS[fault]
    with planted(fault, server), pytest.raises(AssertionError) as seen:
        check(server)
    injectors.CAUGHT[fault] = f"{check.__name__}: {' '.join(str(seen.value).split())[:110]}"


@pytest.mark.parametrize("check", dict.fromkeys(CHECKS.values()))
def test_the_sound_server_passes_also_after_all_of_them(server, check):
    check(server)


def test_every_fault_of_the_protocol_can_be_planted_and_has_a_check():
    assert without_injector() == set()
    assert set(CHECKS) == set(FAULTS)


def test_the_documented_table_is_this_list():
    rows = [line.split("|")[1:4] for line in TABLE.read_text().splitlines() if line.startswith("| `")]
    table = {name.strip(" `"): (does.strip(), check.strip(" `")) for name, does, check in rows}
    assert table == {name: (FAULTS[name].does, check.__name__) for name, check in CHECKS.items()}
