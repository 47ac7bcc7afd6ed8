"""The files of docker/: they parse, they are pinned, and the dashboard asks for what is exported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sglang_dspine.compat.check import sglang_root
from sglang_dspine.serve.docker_plan import CACHE, IMAGE, PORT

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
DASHBOARD = json.loads((DOCKER / "monitoring/grafana/dspine.json").read_text())
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
METRIC = re.compile(r"sglang:[a-z_]+")


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def exported() -> set[str]:
    """Every name that SGLang or this package gives to prometheus_client, as a text in its sources."""
    folders = [sglang_root() / "sglang/srt", ROOT / "sglang_dspine"]
    sources = (path.read_text(errors="replace") for folder in folders for path in folder.rglob("*metrics*.py"))
    return {name for source in sources for name in METRIC.findall(source)}


def test_every_metric_of_the_dashboard_is_exported_by_code():
    asked = {name.removesuffix("_bucket") for text in expressions() for name in METRIC.findall(text)}
    assert len(asked) > 10 and asked <= exported(), asked - exported()


def test_a_metric_that_nothing_exports_would_be_seen():
    assert "sglang:dspine_nothing_total" not in exported() and "sglang:spec_accept_length" in exported()


@pytest.mark.parametrize(
    "name",
    [
        "sglang:spec_accept_length",
        "sglang:dspine_rounds_total",
        'sglang:dspine_rounds_total{width="1"}',
        "sglang:dspine_repaired_rows_total",
        "sglang:num_queue_reqs",
        "sglang:generation_tokens_total",
    ],
)
def test_the_dashboard_shows_what_an_operator_looks_for(name):
    assert any(name in text for text in expressions())


def test_counters_are_shown_as_rates_and_brackets_close():
    for text in expressions():
        for counter in re.findall(r"(\w+)\((sglang:\w+_total)", text):
            assert counter[0] in ("rate", "increase"), text
        assert all(text.count(a) == text.count(b) for a, b in ("()", "{}", "[]")), text


def test_panels_have_places_of_their_own_and_the_provisioned_data_source():
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    source = yaml.safe_load((DOCKER / "monitoring/grafana/datasource.yaml").read_text())["datasources"][0]
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {source["uid"]}


def test_every_image_is_pinned_by_digest_or_is_ours():
    images = {name: service["image"] for name, service in COMPOSE["services"].items()}
    assert images.pop("sglang") == f"${{IMAGE:-{IMAGE}}}"
    assert images and all(DIGEST.search(image) for image in images.values())
    (base,) = re.findall(r"^ARG BASE=(.*)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert DIGEST.search(base)


def test_nothing_listens_beyond_loopback_unless_asked():
    assert COMPOSE["services"]["sglang"]["ports"] == [f"${{HOST:-127.0.0.1}}:${{PORT:-30000}}:{PORT}"]
    assert "--web.listen-address=127.0.0.1:9090" in COMPOSE["services"]["prometheus"]["command"]
    assert COMPOSE["services"]["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


def test_prometheus_reads_the_port_that_the_server_has():
    config = yaml.safe_load((DOCKER / "monitoring/prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"127.0.0.1:{PORT}"]}]
    (rename,) = job["metric_relabel_configs"]  # of what prometheus_client spells with an underscore before Prometheus 3
    assert rename["source_labels"] == ["__name__"] and rename["target_label"] == "__name__"
    name = re.sub(f"^(?:{rename['regex']})$", rename["replacement"].replace("$1", r"\1"), "sglang_num_queue_reqs")
    assert name == "sglang:num_queue_reqs"


def test_monitoring_alone_asks_for_no_model():
    """Compose fills in every variable of the file, whichever services are started: none may be demanded."""
    assert not re.search(r"\$\{\w+:?\?", (DOCKER / "compose.yaml").read_text())


def test_mounted_files_exist_and_named_volumes_are_declared():
    for service in COMPOSE["services"].values():
        for volume in service["volumes"]:
            if isinstance(volume, dict):
                assert volume["read_only"] and not volume["bind"]["create_host_path"]
                continue
            source = volume.rsplit(":", 2)[0] if volume.endswith(":ro") else volume.rsplit(":", 1)[0]
            if source.startswith("./"):
                assert (DOCKER / source).is_file(), source
            elif not source.startswith("$"):
                assert source in COMPOSE["volumes"]


def test_the_image_is_no_roots_has_a_health_check_and_keeps_caches_in_a_volume():
    text = (DOCKER / "Dockerfile").read_text()
    assert re.search(r"^USER [1-9][0-9]*$", text, re.MULTILINE) and re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    assert f"VOLUME {CACHE}" in text and f"HOME={CACHE}" in text
    copied = re.findall(r"^COPY (\S+) ", text, re.MULTILINE)
    assert all((ROOT / name).exists() for name in copied)


def test_the_commands_of_the_scripts_are_clean():
    tool = Path(sys.executable).with_name("shellcheck")
    found = subprocess.run([str(tool), str(ROOT / "scripts/install.sh")], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_the_image_gets_no_secrets_and_no_history():
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert ".*" in ignored and not any(line.startswith("!") for line in ignored)
