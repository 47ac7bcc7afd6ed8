"""Sampled sequences, cut into cells: all tokens drawn after the same prompt and prefix follow one law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglang_dspine.exactness.laws import Laws


@dataclass(frozen=True)
class Samples:
    """N sampled sequences of up to n tokens."""

    prompt: np.ndarray  # [N] int64, index of the prompt
    tokens: np.ndarray  # [N, n] int64, -1 after the end

    def __len__(self) -> int:
        return len(self.prompt)

    def joined(self, other: Samples) -> Samples:
        """These sequences, then the other's."""
        return Samples(np.concatenate([self.prompt, other.prompt]), np.concatenate([self.tokens, other.tokens]))

    def ended_before(self, cells: Cells, dropped: np.ndarray) -> Samples:
        """Each sequence up to its first token that was drawn in a cell of the mask `dropped` [S]."""
        out = (cells.cell_of >= 0) & dropped[cells.cell_of]
        return Samples(self.prompt, np.where(np.logical_or.accumulate(out, axis=1), -1, self.tokens))


@dataclass(frozen=True)
class Cells:
    """S distinct (prompt, prefix) pairs and the tokens drawn in them."""

    prompt: np.ndarray  # [S]
    position: np.ndarray  # [S] 1 is the first generated token
    prefix: list[tuple[int, ...]]  # [S] generated tokens before the position
    cell_of: np.ndarray  # [N, n] int64 index of the cell token (i, k) was drawn in, -1 after the end

    def __len__(self) -> int:
        return len(self.prefix)


def cells_of(samples: Samples, first: int = 2) -> Cells:
    """Cells of positions `first` and later; position 1 is drawn by prefill, before any speculation."""
    n_seq, n_pos = samples.tokens.shape
    node = samples.prompt.astype(np.int64)  # distinct histories so far, one id each
    cell_of = np.full((n_seq, n_pos), -1, np.int64)
    span = int(samples.tokens.max(initial=0)) + 2
    prompt: list[np.ndarray] = []
    position: list[np.ndarray] = []
    prefix: list[tuple[int, ...]] = []
    for k in range(n_pos):
        alive = samples.tokens[:, k] >= 0
        if k + 1 >= first and alive.any():
            seen, at, inverse = np.unique(node[alive], return_index=True, return_inverse=True)
            rows = np.flatnonzero(alive)[at]
            cell_of[alive, k] = len(prefix) + inverse
            prompt.append(samples.prompt[rows])
            position.append(np.full(len(seen), k + 1))
            prefix.extend(map(tuple, samples.tokens[rows, :k].tolist()))
        pair = node * span + samples.tokens[:, k] + 1
        node = np.unique(pair, return_inverse=True)[1].reshape(-1)
    empty = np.empty(0, np.int64)
    return Cells(np.concatenate(prompt or [empty]), np.concatenate(position or [empty]), prefix, cell_of)


def count(samples: Samples, cells: Cells, laws: Laws, rows: slice = slice(None)) -> np.ndarray:
    """Counts [S, C + 1] of the listed tokens of each cell, unlisted ones in the last column."""
    drawn = cells.cell_of[rows] >= 0
    cell, token = cells.cell_of[rows][drawn], samples.tokens[rows][drawn]
    hit = laws.ids[cell] == token[:, None]
    column = np.where(hit.any(axis=1), hit.argmax(axis=1), laws.ids.shape[1])
    width = laws.ids.shape[1] + 1
    return np.bincount(cell * width + column, minlength=len(cells) * width).reshape(len(cells), width)


def frequencies(samples: Samples, cells: Cells, width: int = 32) -> Laws:
    """Observed frequencies of each cell's commonest `width` tokens, ties by lowest id."""
    drawn = cells.cell_of >= 0
    span = int(samples.tokens.max()) + 1
    pair, visits = np.unique(cells.cell_of[drawn] * span + samples.tokens[drawn], return_counts=True)
    cell, token = pair // span, pair % span
    order = np.lexsort((token, -visits, cell))
    cell, token, visits = cell[order], token[order], visits[order]
    rank = np.arange(len(cell)) - np.searchsorted(cell, np.arange(len(cells)))[cell]
    listed = rank < width
    ids = np.full((len(cells), width), -1, np.int64)
    probs = np.zeros(ids.shape)
    ids[cell[listed], rank[listed]] = token[listed]
    probs[cell[listed], rank[listed]] = visits[listed]
    total = np.bincount(cell, weights=visits, minlength=len(cells))
    return Laws(ids, probs / total[:, None], np.maximum(1.0 - probs.sum(axis=1) / total, 0.0))
