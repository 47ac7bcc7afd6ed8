"""The arms' servers, beside a stand-in for SGLang."""

import json

import pytest

from sglang_dspine.bench.serving.arm import parse_arms
from sglang_dspine.bench.serving.servers import Launch, Servers
from sglang_dspine.errors import DSpineError

from ...serve.conftest import ROOT, STAND_IN, gone

TARGET = str(ROOT / "demo" / "target")


@pytest.fixture
def servers(tmp_path, monkeypatch):
    """servers(*arms, **launch): started beside the stand-in, stopped at the end."""
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv("STAND_IN_RECORD", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    made = []

    def make(*arms: str, **launch):
        parsed = parse_arms(arms)
        made.append(Servers(Launch(TARGET, folder=tmp_path, **launch), parsed, lambda what: lambda s, line: None))
        return made[-1], parsed

    yield make
    for running in made:
        running.stop()


def record(tmp_path, name: str) -> dict:
    return json.loads((tmp_path / f"{name}.json").read_text())


def test_each_arm_gets_its_flags_and_its_environment_and_nothing_is_left(servers, tmp_path, monkeypatch):
    monkeypatch.setenv("POLICY", "from outside")
    fleet, (plain, dspine) = servers("plain", "dspine DSPINE=/d POLICY=table --page-size 16", extra=("--x", "1"))
    with fleet:
        assert fleet.url(plain)[0] != fleet.url(dspine)[0]
        assert not fleet.url(plain)[1]  # it was running by then
        plain_call, dspine_call = record(tmp_path, "plain"), record(tmp_path, "dspine")
    assert dspine_call["words"][-8:] == [
        "--x", "1", "--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", "/d", "--page-size", "16",
    ]  # fmt: skip
    assert plain_call["words"][-2:] == ["--x", "1"]
    assert dspine_call["environment"]["POLICY"] == "table" and plain_call["environment"]["POLICY"] == "from outside"
    assert "POLICY=table" in fleet.commands["dspine"]
    assert gone(plain_call["pids"] + dspine_call["pids"])
    assert {path.name for path in tmp_path.glob("*.log")} == {"plain.log", "dspine.log"}


def test_one_at_a_time_stops_the_other_arm_first(servers, tmp_path):
    fleet, (plain, dspine) = servers("plain", "dspine DSPINE=/d", keep=False)
    with fleet:
        assert fleet.url(plain)[1]
        first = record(tmp_path, "plain")["pids"]
        assert fleet.url(dspine)[1] and gone(first)


def test_a_server_that_dies_while_starting_is_an_error_with_its_log(servers, monkeypatch):
    monkeypatch.setenv("STAND_IN_DIES", "3")
    fleet, (plain,) = servers("plain")
    with fleet, pytest.raises(DSpineError, match="SGLang ended with status 3"):
        fleet.url(plain)


def test_flags_that_need_a_drafter_are_kept_from_an_arm_without_one(servers, monkeypatch):
    from sglang_dspine.bench.serving import servers as module
    from sglang_dspine.serve.hardware import Gpu

    monkeypatch.setattr(module, "find_gpu", lambda: Gpu("NVIDIA H200", (9, 0)))
    fleet, (plain, dspine) = servers("plain", "dspine DSPINE=/d")
    needs = ("--speculative", "--enable-linear-replayssm-spec")
    assert not [w for w in fleet.command(plain, 1).words if w.startswith(needs)]
    assert "--enable-linear-replayssm-spec" in fleet.command(dspine, 1).words


def test_an_arm_to_be_started_needs_a_target():
    with pytest.raises(DSpineError, match="arms a are to be started, but there is no --target"):
        Servers(Launch(None), parse_arms(["a", "b url=http://x"]), lambda what: lambda s, line: None)
