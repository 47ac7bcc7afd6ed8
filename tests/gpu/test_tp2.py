"""`tp2` without a GPU: its servers' flags are SGLang's, multicast stays off, figures and exit status are right."""

from __future__ import annotations

import argparse
import csv
from types import SimpleNamespace

import pytest

from sglang_dspine.bench.collectives import counts, round_collectives
from sglang_dspine.bench.rounds.measure import Sample
from sglang_dspine.bench.rounds.trace import collectives_of, graph_replays

from . import tp2


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in tp2.OFF:
        monkeypatch.delenv(name, raising=False)


def servers(out):
    return [*tp2.demo_servers(out), *tp2.shape_servers(out)]


def parsed(words: list[str]) -> argparse.Namespace:
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(parser)
    return parser.parse_args(words)


def test_every_flag_is_sglangs_and_each_server_has_a_port_of_its_own(tmp_path):
    found = {server.name: parsed(server.args) for server in servers(tmp_path)}
    assert {name: args.tp_size for name, args in found.items()} == {
        "plain-1": 1, "demo-2": 2, "fine-1": 1, "fine-2": 2, "dspine-2": 2, "dflash-2": 2, "dspine-1": 1,
    }  # fmt: skip
    assert [args.speculative_algorithm for args in found.values()] == [None, *["DSPINE"] * 4, "DFLASH", "DSPINE"]
    assert not any(args.disable_overlap_schedule or args.disable_cuda_graph for args in found.values())
    assert len({server.port for server in servers(tmp_path)}) == len(found)


def test_no_server_may_use_multicast(tmp_path, monkeypatch):
    for server in servers(tmp_path):
        assert {name: server.env[name] for name in tp2.OFF} == tp2.OFF
        assert parsed(server.args).tp_size == 1 or parsed(server.args).enforce_disable_flashinfer_allreduce_fusion
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    with pytest.raises(SystemExit, match="NCCL_NVLS_ENABLE"):
        tp2.demo_servers(tmp_path)


def test_e2_is_held_against_plain_decode_and_e4_against_one_rank(tmp_path):
    urls = {server.name: server.url for server in servers(tmp_path)}
    for name, (ours, control) in {"e2": ("demo-2", "plain-1"), "e4": ("fine-2", "fine-1")}.items():
        words = tp2.exactness(tmp_path)[name]
        assert words[words.index("--url") + 1] == urls[ours]
        assert words[words.index("--control-url") + 1] == urls[control]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two ranks take 6 ms a round and one takes 10; `exact` is what E2 and E4 come to."""
    state = SimpleNamespace(exact=True, visits=[], stopped=[])

    def pair(http, users, context, seed):
        state.visits.append(str(http.base_url))
        ms = 0.010 if http.base_url.port == 30312 else 0.006
        return Sample(1.0, 24 * users, 8), Sample(1.0 + 40 * ms, 152 * users, 48)

    monkeypatch.setattr(tp2, "pair", pair)
    monkeypatch.setattr(tp2, "force_width", lambda http, width: None)
    monkeypatch.setattr(tp2, "counted", lambda http, users, folder: {"all-reduce": 141.0, "broadcast": 2.0})
    monkeypatch.setattr(tp2, "joined", lambda out, names, until: state.exact)
    monkeypatch.setattr(tp2, "stop", lambda out, found: state.stopped.extend(server.name for server in found))
    monkeypatch.setattr(tp2, "CSV", tmp_path / "published" / "h200-tp2.csv")
    tp2.CSV.parent.mkdir()
    return state


def test_the_figures_are_written_and_every_server_is_stopped(tmp_path, machine):
    assert tp2.measure(tmp_path) == 0
    rows = list(csv.DictReader(tp2.CSV.open()))
    assert len(rows) == len(tp2.ARMS) * len(tp2.USERS)
    assert {(r["ranks"], r["round_ms"]) for r in rows} == {("2", "6.000"), ("1", "10.000")}
    assert {r["reckoned"] for r in rows} == {"145", ""}
    assert {(r["ranks"], r["all_reduces"]) for r in rows} == {("2", "141.0"), ("1", "")}
    assert set(machine.stopped) == {server.name for server in servers(tmp_path)}
    there, back = machine.visits[5:10], machine.visits[10:15]
    assert there == back[::-1], "arms are visited there and back"


def test_without_exactness_there_is_no_success(tmp_path, machine):
    machine.exact = False
    assert tp2.measure(tmp_path) == 1


@pytest.mark.parametrize("listed, enough", [("GPU 0: H200", False), ("GPU 0: H200\nGPU 1: H200", True)])
def test_two_gpus_are_asked_for(monkeypatch, listed, enough):
    monkeypatch.setattr(tp2.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout=listed))
    assert tp2.enough_gpus() is enough


def test_collectives_are_counted_by_the_names_of_their_kernels():
    names = {
        "all-reduce": [
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(...)",
            "void all_reduce_1shot_push_kernel<__nv_bfloat16, 2u>(...)",
        ],
        "all-gather": ["ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"],
        "broadcast": ["ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"],
    }
    events = [{"cat": "kernel", "name": name} for same in names.values() for name in same]
    events += [{"cat": "kernel", "name": "head_share"}, {"cat": "cpu_op", "name": "c10d::allreduce_"}]
    events += [{"cat": "cuda_runtime", "name": "cudaGraphLaunch"}, {"cat": "cuda_driver", "name": "cuGraphLaunch"}]
    assert collectives_of(events) == {kind: len(same) for kind, same in names.items()}
    assert graph_replays(events) == 2
    assert set(names) == set(counts(round_collectives(1, 8, 2)))
