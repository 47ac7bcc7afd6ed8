"""The dashboard as a picture: every panel is asked for and drawn; nothing is drawn from nothing."""

from __future__ import annotations

import json
import math
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from demo.dashboard.__main__ import DASHBOARD, curves
from demo.dashboard.panels import UNITS, legend
from demo.dashboard.prometheus import CONFIG, RATE_S, SCRAPE_S, TARGET, ask, prometheus, scrapes
from sglang_dspine.errors import DSpineError

PANELS = json.loads(DASHBOARD.read_text())["panels"]
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus on PATH")


@pytest.fixture
def answers(monkeypatch):
    """`answers(body)`: what Prometheus says from now on; the queries that were sent."""
    asked: list[str] = []

    def says(body: dict) -> list[str]:
        def get(url: str, params: dict | None = None, **ignored: object) -> httpx.Response:
            asked.append((params or {}).get("query", url))
            return httpx.Response(200, json=body)

        monkeypatch.setattr(httpx, "get", get)
        return asked

    return says


def test_a_legend_is_filled_in_from_the_labels():
    assert legend("width {{width}}", {"width": "8"}) == "width 8" and legend("mean", {}) == "mean"


def test_every_panel_is_asked_its_own_queries_and_its_curves_are_named(answers):
    metric = {"metric": {"width": "8", "forward": "draft"}, "values": [[100.0, "1.5"], [105.0, "NaN"]]}
    asked = answers({"status": "success", "data": {"result": [metric]}})
    for panel in PANELS:
        found = curves("http://p", panel, 100.0, 105.0)
        assert len(found) == len(panel["targets"]) and all("{" not in name for name, _ in found)
        assert found[0][1].seconds == [0.0, 5.0] and math.isnan(found[0][1].values[1])
    expressions = [target["expr"] for panel in PANELS for target in panel["targets"]]
    assert asked == [text.replace("$__rate_interval", f"{RATE_S}s") for text in expressions]


def test_a_query_that_is_refused_is_an_error(answers):
    answers({"status": "error", "error": "parse error"})
    with pytest.raises(DSpineError, match="parse error"):
        ask("http://p", "sum(", 0.0, 1.0)


def test_every_unit_of_the_dashboard_has_a_word():
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS} <= UNITS.keys()


def test_the_configuration_is_that_of_docker():
    assert f'"{TARGET}"' in CONFIG.read_text() and f"scrape_interval: {SCRAPE_S}s" in CONFIG.read_text()


@needs_prometheus
@pytest.mark.full
def test_a_name_that_arrives_with_an_underscore_is_found_under_its_colon(tmp_path):
    """As prometheus_client spells it to a Prometheus before 3."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(b"sglang_spec_accept_length 4.5\nsglang:num_queue_reqs 2\n")

        def log_message(self, *ignored: object) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    start = time.time()
    with prometheus(f"http://127.0.0.1:{server.server_port}", tmp_path) as url:
        found: dict[str, list[float]] = {}
        while len(found) < 2 and time.time() < start + 60:
            time.sleep(0.5)
            for name in ("sglang:spec_accept_length", "sglang:num_queue_reqs"):
                for series in ask(url, name, start, time.time()):
                    found[name] = series.values
        assert scrapes(url, start, time.time())[0] >= 1
    server.shutdown()
    assert found["sglang:spec_accept_length"][-1] == 4.5 and found["sglang:num_queue_reqs"][-1] == 2.0


@needs_prometheus
@pytest.mark.full
def test_an_endpoint_that_is_not_there_is_no_empty_picture(tmp_path):
    start = time.time()
    with prometheus("http://127.0.0.1:9", tmp_path) as url:
        time.sleep(SCRAPE_S + 2)
        with pytest.raises(DSpineError, match="prometheus read nothing"):
            scrapes(url, start, time.time())
