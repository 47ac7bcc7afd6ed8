"""What the trained pair proposes through SGLang is what the reference proposes at the same anchors, round by round."""

from __future__ import annotations

from unittest import mock

import pytest
import torch

from sglang_dspine.reference import backbone

from ..support import pairs
from ..support.engine import Request
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.prompts import random_prompts
from ..support.reference_rounds import Comparison, compare, draft_again, reference_drafter
from ..support.round_log import logged_rounds


def greedy(prompts, steps: int) -> list[Request]:
    return [Request(ids, {"max_new_tokens": steps, "ignore_eos": True}) for ids in prompts]


def served_rounds(engine, prompts, steps: int):
    """Outputs and, for each, its rounds; a round behind a finished text (overlap) is left out."""
    with logged_rounds() as log:
        outputs = engine.generate(greedy(prompts, steps))
    texts = [[*out.req.origin_input_ids, *out.req.output_ids] for out in outputs]
    rounds = [
        [r for r in log.of(out.rid) if r.length + 1 < len(text)] for out, text in zip(outputs, texts, strict=True)
    ]
    for out, its_rounds in zip(outputs, rounds, strict=True):
        assert [r.accepted for r in its_rounds] == out.accept_lengths
    return outputs, texts, rounds


def compared(pair, texts, rounds) -> Comparison:
    result = Comparison()
    for text, its_rounds in zip(texts, rounds, strict=True):
        compare(pair, text, its_rounds, result)
    return result


def mean(rounds) -> float:
    lengths = [r.accepted for its_rounds in rounds for r in its_rounds]
    return sum(lengths) / len(lengths)


def test_a_few_rounds_of_the_trained_pair_equal_the_references(engines):
    pair = pairs.demo()
    engine = pair.served(engines, **EXTRA_BUFFER)
    _, texts, rounds = served_rounds(engine, held_out_code(2, 150), 48)
    result = compared(pair, texts, rounds)
    result.holds()
    assert result.rounds == sum(map(len, rounds)) and mean(rounds) > 2


def test_a_dense_targets_rounds_equal_the_references_in_pages_and_chunks(engines):
    pair = pairs.full_rank()
    engine = pair.served(engines, page_size=16, chunked_prefill_size=16, disable_overlap_schedule=False)
    _, texts, rounds = served_rounds(engine, random_prompts((3, 20, 64, 100)), 16)
    compared(pair, texts, rounds).holds()


@pytest.mark.full
@pytest.mark.parametrize("page", [1, 16])
def test_a_compact_window_drafts_over_its_last_positions(engines, page):
    """From the window's first position, or from the page that holds it."""
    pair, size = pairs.full_rank(), 24
    engine = pair.served(engines, page_size=page, speculative_draft_window_size=size)
    _, texts, rounds = served_rounds(engine, random_prompts((3, 20, 64, 100)), 16)

    def visible(query, key, start, window):
        first = (start - size).clamp_min(0) // page * page
        return (key <= query[:, :, None]) & (key >= first[:, None, None])

    with mock.patch.object(backbone, "visible", visible):
        compared(pair, texts, rounds).holds()
    with pytest.raises(AssertionError, match="differ"):
        compared(pair, texts, rounds).holds()  # without the window the proposals would be others


@pytest.mark.full
def test_accepted_length_on_held_out_code_is_the_references_and_needs_the_bridge(engines, capsys):
    pair, prompts, steps = pairs.demo(), held_out_code(16, 256), 128
    engine = pair.served(engines, **EXTRA_BUFFER)
    _, texts, rounds = served_rounds(engine, prompts, steps)
    result = compared(pair, texts, rounds)
    result.holds()

    bridge, table = engine.draft_worker.draft_model.bridge, engine.draft_worker.draft_model.proposer.table
    kept = [w.clone() for w in bridge.writes], table.gram.clone()
    with torch.no_grad():
        for tensor in (*bridge.writes, table.gram):
            tensor.zero_()
        engine.flush()
        _, texts_without, rounds_without = served_rounds(engine, prompts, steps)
        for tensor, value in zip((*bridge.writes, table.gram), (*kept[0], kept[1]), strict=True):
            tensor.copy_(value)
    engine.flush()
    assert texts_without and [t[: 256 + steps] for t in texts_without] == [t[: 256 + steps] for t in texts]

    silent = reference_drafter(pair, bridge=False)
    for text, its_rounds in zip(texts_without, rounds_without, strict=True):
        again = draft_again(silent, pair, text, its_rounds)
        assert again.tokens.tolist() == [r.proposals.tolist() for r in its_rounds]
    with capsys.disabled():
        print(
            f"\naccepted length {mean(rounds):.2f} over {result.rounds} rounds, {len(result.ties)} ties;"
            f" {mean(rounds_without):.2f} without the bridge; table error {result.table_error:.1e}"
        )
    assert mean(rounds) >= 3.0
    assert mean(rounds_without) < mean(rounds) - 0.2
