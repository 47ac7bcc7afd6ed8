"""Table and walk under Triton's interpreter against their naive forms; `../test_interpreted.py` runs them."""

from __future__ import annotations

import pytest
import torch

from sglang_dspine.kernels.head_rows.form import StoredHead
from sglang_dspine.kernels.table_walk.naive import table_naive, walk_naive
from sglang_dspine.kernels.table_walk.parts import Draw, Prepared, Proposal, TableWeights
from sglang_dspine.kernels.table_walk.plan import plan_table_walk
from tests.kernels.ratio import ratio_error

VOCAB = 60


class Case:
    """Weights and inputs of one batch; `run` gives scores and the proposal by the kernels, `naive` in plain torch."""

    def __init__(self, n=2, rows=2, hidden=40, m=20, k=8, dtype=torch.float32, seed=0) -> None:
        g = torch.Generator().manual_seed(seed)

        def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
            return (torch.randn(*shape, generator=g) * scale).to(dtype)

        write = normal(hidden, m, scale=m**-0.5)
        self.head = normal(VOCAB, hidden, scale=2 * hidden**-0.5)
        norm = 1 + normal(hidden, scale=0.1)
        gram = write.float().T @ write.float()
        self.weights = TableWeights(write, gram, norm, normal(VOCAB, m), normal(VOCAB, m), 1e-6)
        self.prepared = Prepared(gram.to(dtype), (self.head * norm) @ write)
        self.stored = StoredHead(self.head, hidden)
        self.stream = normal(n, rows + 1, hidden)
        self.receive = normal(n, rows + 1, m)[:, 1:]
        self.candidates = torch.rand(n, rows, VOCAB, generator=g).argsort(-1)[..., :k].contiguous()
        self.anchor = torch.randint(VOCAB, (n, 3), generator=g)[:, 1]  # as in a block's ids
        self.temperatures = torch.tensor([0.3, 0.7, 1.0, 1.6] * n)[: n + 1]
        self.greedy = torch.arange(n + 1) % 2 == 1
        self.uniforms = torch.rand(n + 1, rows + 2, generator=g)

    @property
    def x(self) -> torch.Tensor:
        return self.stream[:, 1:]

    def run(self, wide: bool | None = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        n, rows, k = self.candidates.shape
        proposal = Proposal(
            torch.full((n + 1, rows + 2), -1),
            torch.full((n + 1, rows + 2, k), -1),
            torch.full((n + 1, rows + 2, k), -1.0),
        )
        launches, scores = plan_table_walk(
            self.x, self.receive, (self.stream @ self.weights.write)[:, 1:], self.candidates, self.anchor, self.weights,
            self.prepared, self.stored, Draw(self.temperatures, self.greedy, self.uniforms), proposal, wide,
        )  # fmt: skip
        for launch in launches:
            launch.run()
        tokens, candidates, q = proposal
        assert (tokens[n:] == -1).all() and (q[:, rows:] == -1).all(), "rows beyond the batch were written"
        assert torch.equal(candidates[:n, :rows], self.candidates)
        return scores, tokens[:n, :rows], q[:n, :rows], proposal.tokens

    def naive(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        n, rows = self.candidates.shape[:2]
        scores = table_naive(
            self.x, self.receive, self.candidates, self.anchor, self.weights, lambda ids: self.head[ids]
        )
        uniforms = self.uniforms[:n, :rows]
        return scores, *walk_naive(self.candidates, scores, self.temperatures[:n], self.greedy[:n], uniforms)


SHAPES = [(1, 1, 24, 12, 16), (3, 2, 40, 20, 8), (1, 3, 40, 70, 5)]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n, rows, hidden, m, k", SHAPES)
def test_scores_path_and_q_are_the_naive_ones_at_odd_shapes(n, rows, hidden, m, k, wide):
    case = Case(n, rows, hidden, m, k)
    (scores, tokens, q, _), (naive_scores, naive_tokens, naive_q) = case.run(wide), case.naive()
    error = (scores - naive_scores).abs().amax((2, 3)) / naive_scores.abs().amax((2, 3))
    assert error.max() < 1e-5
    assert torch.equal(tokens, naive_tokens)
    torch.testing.assert_close(q, naive_q, rtol=1e-4, atol=1e-6)


def test_sixteen_bits_are_as_near_to_the_exact_table_as_the_naive_form():
    """In float16: the interpreter multiplies no BF16 matrices."""
    case, wide = Case(dtype=torch.float16, seed=4), Case(dtype=torch.float16, seed=4)
    wide.weights = TableWeights(*(w.float() for w in wide.weights[:5]), wide.weights.eps)
    wide.stream, wide.receive, wide.head = (t.float() for t in (wide.stream, wide.receive, wide.head))
    exact = wide.naive()[0]
    assert ratio_error(case.run()[0], exact) <= 1.5 * ratio_error(case.naive()[0], exact) < 0.003


def test_equal_scores_go_to_the_first_candidate():
    case = Case()
    case.head.zero_()
    case.prepared.seen.zero_()
    case.greedy[:] = True
    scores, tokens, q, _ = case.run()
    assert not scores.any() and torch.equal(tokens, case.candidates[..., 0])
    assert torch.equal(q, torch.eye(8)[0].expand_as(q))


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-24])
def test_a_candidate_of_probability_zero_is_never_drawn(uniform):
    case = Case(seed=2)
    case.temperatures[:] = 1e-5
    case.greedy[:] = False
    case.uniforms[:] = uniform
    _, tokens, q, _ = case.run()
    drawn = (case.candidates == tokens[..., None]).float().argmax(-1, keepdim=True)
    assert (q.gather(-1, drawn) > 0).all()
    torch.testing.assert_close(q.sum(-1), torch.ones_like(q[..., 0]))


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_state_that_is_not_finite_leaves_real_tokens_and_the_other_rows_as_they_are(bad):
    case = Case(seed=3)
    good = case.run()[0]
    case.stream[1, 2] = bad
    scores, tokens, q, _ = case.run()
    assert scores.isfinite().all() and (tokens[..., None] == case.candidates).any(-1).all()
    torch.testing.assert_close(q.sum(-1), torch.ones_like(q[..., 0]))
    kept = torch.ones(scores.shape[:2], dtype=torch.bool)
    kept[1, 1] = False
    assert torch.equal(scores[kept], good[kept])


def test_the_anchor_is_the_only_predecessor_of_the_first_row():
    scores = Case().run()[0]
    torch.testing.assert_close(scores[:, 0], scores[:, 0, :1].expand_as(scores[:, 0]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fault", ["another row's receiver gate", "U of another token", "no norm weight", "t left out"])
def test_a_fault_is_seen(fault):
    case = Case(seed=1)
    exact = case.naive()[0]
    if fault == "another row's receiver gate":
        case.receive = case.receive.roll(1, 1)
    elif fault == "U of another token":
        case.prepared.seen.copy_(case.prepared.seen.roll(1, 0))
    elif fault == "no norm weight":
        case.weights.norm.fill_(1.0)
    else:
        scores = case.run()[0]
        case.weights = case.weights._replace(write=torch.zeros_like(case.weights.write))
        assert ratio_error(case.run()[0], scores) > 1e-3
    assert ratio_error(case.run()[0], exact) > 1e-3
