"""The draft forward gets the block as N * w rows, and host lengths that no device is asked for."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from sglang.srt.model_executor import forward_batch_info
from sglang.srt.speculative import spec_utils

from sglang_dspine.draft.block import Block
from sglang_dspine.draft.forward import draft_forward, host_lengths, run_draft

N, WIDTH, HIDDEN = 2, 4, 3
LENGTHS, COMPACT, BOUND = torch.tensor([7, 120]), torch.tensor([5, 64]), torch.tensor([9, 68], dtype=torch.int32)


class Plan:
    """SGLang's KVLocPlan: what it was rebound to and for."""

    def __init__(self, **read):
        self.read = read

    def reads_from(self, translator, **read):
        return Plan(**read)

    def bind(self, forward_batch, translator):
        forward_batch.bound = self


class Worker:
    draft_parallel_layout, use_compact_draft_cache = None, False

    def __init__(self):
        self.rebuilt, self.buffers = [], []
        self.draft_model_runner = SimpleNamespace(
            kv_index_translator="translator",
            forward=lambda batch: SimpleNamespace(can_run_graph=self.in_graph, given=batch),
        )
        self.in_graph = False

    def draft_spec_info(self, width):
        return f"of {width} rows"

    def _compute_compact_draft_seq_lens(self, lens):
        assert torch.equal(lens, LENGTHS)
        return COMPACT

    def _fill_compact_seq_lens_cpu_bound(self, batch_seq_lens_cpu, nxt_kv_lens_cpu, out):
        out.copy_(BOUND)

    def _ensure_draft_block_buffers(self, n):
        self.buffers.append(n)

    def _rebuild_compact_draft_cache(self, **what):
        self.rebuilt.append(what)


def batch_of(seq_lens_cpu=LENGTHS):
    return SimpleNamespace(
        seq_lens_cpu=seq_lens_cpu, req_pool_indices=torch.tensor([2, 0]), can_run_decode_cuda_graph="as asked", reqs=[]
    )


@pytest.fixture(params=[False, True], ids=["", "counted"])
def counted(request, monkeypatch):
    monkeypatch.setattr(spec_utils, "draft_tp_context", lambda layout: nullcontext())
    monkeypatch.setattr(forward_batch_info, "enable_num_token_non_padded", lambda: request.param)
    return request.param


@pytest.fixture
def block():
    rows = torch.arange(N * WIDTH).view(N, WIDTH)
    return Block(WIDTH, LENGTHS, rows, LENGTHS[:, None] + torch.arange(WIDTH), 100 + rows, Plan())


EMBEDS = torch.arange(N * WIDTH * HIDDEN, dtype=torch.float32).view(N, WIDTH, HIDDEN)
NEXT = SimpleNamespace(nxt_kv_lens_cpu=torch.tensor([40, 160]))


def test_every_row_of_the_block_is_a_token_of_the_forward(block, counted):
    given = run_draft(Worker(), batch_of(), NEXT, block, EMBEDS).given
    assert given.forward_mode == forward_batch_info.ForwardMode.TARGET_VERIFY and given.batch_size == N
    assert given.input_ids.tolist() == list(range(8)) and given.out_cache_loc.tolist() == list(range(100, 108))
    assert given.positions.tolist() == [7, 8, 9, 10, 120, 121, 122, 123]
    assert torch.equal(given.input_embeds, EMBEDS.view(8, HIDDEN))
    assert torch.equal(given.seq_lens, LENGTHS), "the committed prefix alone"
    assert given.spec_info == "of 4 rows" and given.can_run_decode_cuda_graph == "as asked"
    assert given.bound is block.plan
    assert given.global_num_token_non_padded_cpu == 8
    assert given.num_token_non_padded == (8 if counted else None)


@pytest.mark.parametrize("in_graph", [True, False])
def test_a_draft_tells_whether_a_captured_graph_ran(block, counted, in_graph):
    worker = Worker()
    worker.in_graph = in_graph
    assert draft_forward(worker, batch_of(), NEXT, block, EMBEDS) is in_graph


def test_planning_gets_the_committed_lengths_and_the_block(block, counted):
    worker = Worker()
    given = run_draft(worker, batch_of(), NEXT, block, EMBEDS).given
    assert given.seq_lens_cpu.tolist() == [11, 124] and given.seq_lens_sum == 135
    assert not worker.rebuilt


def test_a_draft_window_reads_its_own_rebuilt_table(block, counted):
    worker = Worker()
    worker.use_compact_draft_cache = True
    given = run_draft(worker, batch_of(), NEXT, block, EMBEDS).given
    assert torch.equal(given.seq_lens, COMPACT) and torch.equal(given.seq_lens_cpu, BOUND) and given.seq_lens_sum == 77
    read = given.bound.read
    assert torch.equal(read["seq_lens"], COMPACT) and torch.equal(read["seq_lens_cpu"], BOUND)
    assert read["read_extent"] == WIDTH
    (rebuilt,) = worker.rebuilt
    assert worker.buffers == [N] and rebuilt["bs"] == N and rebuilt["block_size"] == WIDTH
    assert torch.equal(rebuilt["verify_out_cache_loc_2d"], block.cache_loc)
    assert torch.equal(rebuilt["draft_prefix_lens"], COMPACT) and torch.equal(rebuilt["prefix_lens"], LENGTHS)


def test_without_lengths_on_the_host_the_reserved_ones_bound_them():
    assert host_lengths(batch_of(None), NEXT, WIDTH).tolist() == [40, 160]
    batch = batch_of(None)
    batch.reqs = [SimpleNamespace(kv=SimpleNamespace(kv_allocated_len=length)) for length in (64, 192)]
    assert host_lengths(batch, SimpleNamespace(nxt_kv_lens_cpu=None), WIDTH).tolist() == [64, 192]
