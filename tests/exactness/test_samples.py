"""Cells of sampled sequences."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.samples import Samples, cells_of, count, frequencies

sequences = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 3), min_size=1, max_size=4)), min_size=1, max_size=30
)


def samples_of(pairs):
    tokens = np.full((len(pairs), 4), -1)
    for i, (_, ids) in enumerate(pairs):
        tokens[i, : len(ids)] = ids
    return Samples(np.array([p for p, _ in pairs]), tokens)


@settings(max_examples=50, deadline=None)
@given(sequences, st.sampled_from([1, 2]))
def test_cells_count_what_a_dictionary_counts(pairs, first):
    samples = samples_of(pairs)
    cells = cells_of(samples, first)
    wide = Laws(np.tile(np.arange(4), (len(cells), 1)), np.zeros((len(cells), 4)), np.zeros(len(cells)))
    counts = count(samples, cells, wide)
    expected = Counter((p, tuple(ids[:k]), ids[k]) for p, ids in pairs for k in range(first - 1, len(ids)))
    found = {
        (int(cells.prompt[s]), cells.prefix[s], t): int(counts[s, t])
        for s in range(len(cells))
        for t in range(4)
        if counts[s, t]
    }
    assert found == expected
    assert counts[:, 4].sum() == 0
    assert [len(p) + 1 for p in cells.prefix] == cells.position.tolist()


def test_unlisted_tokens_are_the_rest():
    samples = samples_of([(0, [1, 2]), (0, [1, 3]), (0, [1, 3])])
    cells = cells_of(samples)
    laws = Laws(np.array([[2, -1]]), np.array([[0.4, 0.0]]), np.array([0.6]))
    assert count(samples, cells, laws).tolist() == [[1, 0, 2]]


def test_frequencies_rank_the_commonest_first():
    samples = samples_of([(0, [1, 2]), (0, [1, 3]), (0, [1, 3]), (0, [1, 0])])
    laws = frequencies(samples, cells_of(samples), width=2)
    assert laws.ids.tolist() == [[3, 0]]
    np.testing.assert_allclose(laws.probs, [[0.5, 0.25]])
    np.testing.assert_allclose(laws.rest, [0.25])


def test_a_sequence_ends_before_its_first_dropped_cell():
    samples = samples_of([(0, [1, 2, 3]), (0, [1, 3, 3]), (1, [1, 2, 0])])
    cells = cells_of(samples)
    dropped = np.array(
        [prefix == (1, 2) and prompt == 0 for prompt, prefix in zip(cells.prompt, cells.prefix, strict=True)]
    )
    assert samples.ended_before(cells, dropped).tokens.tolist() == [[1, 2, -1, -1], [1, 3, 3, -1], [1, 2, 0, -1]]
    first = np.array(
        [prefix == (1,) and prompt == 0 for prompt, prefix in zip(cells.prompt, cells.prefix, strict=True)]
    )
    assert samples.ended_before(cells, first).tokens[:, :2].tolist() == [[1, -1], [1, -1], [1, 2]]
