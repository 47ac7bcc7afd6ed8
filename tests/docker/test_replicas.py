"""docker/compose.replicas.yaml: two replicas with a GPU each, and a router that alone is reached from outside."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from sglang_dspine.serve.docker_plan import IMAGE, PORT

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
SERVICES = yaml.safe_load((DOCKER / "compose.replicas.yaml").read_text())["services"]
REPLICAS = {name: service for name, service in SERVICES.items() if name != "router"}


def test_each_replica_has_a_gpu_of_its_own():
    gpus = [
        device["device_ids"]
        for service in REPLICAS.values()
        for device in service["deploy"]["resources"]["reservations"]["devices"]
    ]
    assert gpus == [["0"], ["1"]]


def test_the_router_knows_every_replica_and_routes_by_prefix():
    command = SERVICES["router"]["command"]
    urls = command[command.index("--worker-urls") + 1 :]
    assert urls == [f"http://{name}:{PORT}" for name in REPLICAS]
    assert "--policy=cache_aware" in command and "--health-failure-threshold=2" in command


def test_only_the_router_is_published_and_on_loopback():
    assert not any("ports" in service for service in REPLICAS.values())
    assert SERVICES["router"]["ports"] == [f"${{HOST:-127.0.0.1}}:${{PORT:-30000}}:{PORT}", "127.0.0.1:29000:29000"]


def test_replicas_run_the_endpoints_image_and_the_router_one_made_from_it():
    assert {service["image"] for service in REPLICAS.values()} == {f"${{IMAGE:-{IMAGE}}}"}
    assert f"ARG BASE={IMAGE}\n" in (DOCKER / "router.Dockerfile").read_text()


def test_the_routers_version_is_pinned_once_for_image_and_tests():
    (pinned,) = re.findall(r"sglang-router==([\d.]+)", (DOCKER / "router.Dockerfile").read_text())
    assert SERVICES["router"]["image"] == f"${{ROUTER_IMAGE:-sglang-dspine-router:{pinned}}}"
    (extra,) = re.findall(r"^test = (.*)$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert f'"sglang-router=={pinned}"' in extra


def test_a_replica_is_given_time_to_finish_what_runs():
    assert all(service["stop_grace_period"] == "300s" for service in REPLICAS.values())
