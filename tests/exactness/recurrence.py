"""A target whose only memory is a recurrent state, decoded with rounding, with verify's way of committing it.

A gated delta-rule cell of width 8: S <- a S + b (v - S k) k^T, read by q; a row of logits is a fixed map of the read.
Rounding is drawn anew for every arm, as another kernel or batch size would round.
"""

from __future__ import annotations

import numpy as np

WIDTH, VOCAB = 8, 40
ROUNDING = 4e-3  # relative, about BF16


class Cell:
    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.k, self.v, self.q = rng.normal(size=(3, VOCAB, WIDTH)) / np.sqrt(WIDTH)
        self.k /= np.linalg.norm(self.k, axis=1, keepdims=True)
        self.decay, self.beta = rng.uniform(0.9, 0.999, VOCAB), rng.uniform(0.2, 0.9, VOCAB)
        self.head = rng.normal(size=(WIDTH, VOCAB)) * 3

    def step(self, state, token):
        k = self.k[token]
        return self.decay[token] * state + self.beta[token] * np.outer(self.v[token] - state @ k, k)

    def read(self, state, token, rng):
        out = state @ self.q[token]
        return (out * (1 + ROUNDING * rng.normal(size=WIDTH))) @ self.head


def plain(cell, text, rng):
    """Rows [len(text), VOCAB] of token-by-token decode."""
    state, rows = np.zeros((WIDTH, WIDTH)), []
    for token in text:
        state = cell.step(state, token) * (1 + ROUNDING * rng.normal(size=(WIDTH, WIDTH)) / 8)
        rows.append(cell.read(state, token, rng))
    return np.array(rows)


def verify(cell, text, lengths, rng, committed=lambda length: length):
    """Rows by rounds: a round reads `length` rows from the committed state, then commits `committed(length)` steps.

    Beyond the accepted rows, the block goes on with a rejected token, here always id 0.
    """
    state, rows, accepted, at, before = np.zeros((WIDTH, WIDTH)), [], [], 0, 0
    for length in lengths:
        block = text[at : at + length]
        running, states = state, [state]
        for i, token in enumerate([*block, 0]):
            running = cell.step(running, token) * (1 + ROUNDING * rng.normal(size=(WIDTH, WIDTH)) / 8)
            states.append(running)
            if i < len(block):
                rows.append(cell.read(running, token, rng))
                accepted.append(before)
        state = states[committed(len(block))]
        at, before = at + len(block), len(block)
    return np.array(rows), np.array(accepted)
