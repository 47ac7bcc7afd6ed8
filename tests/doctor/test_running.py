"""A running endpoint, by a server that answers as SGLang does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sglang_dspine.doctor.running import look_at_endpoint

INFO = {
    "model_path": "/m", "speculative_algorithm": "DSPINE", "speculative_draft_model_path": "/d",
    "speculative_num_draft_tokens": 16,
    "internal_states": [{"avg_spec_accept_length": 3.5, "dspine": {"rounds_by_width": {"8": 3}}}],
}  # fmt: skip


@pytest.fixture
def endpoint():
    """`endpoint(info, rounds, metrics)`: findings about such a server, by what they are about."""

    def look(info=INFO, rounds=16, metrics="# TYPE sglang:x gauge\n", key=None):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/server_info" and key and self.headers["Authorization"] != f"Bearer {key}":
                    return self.answer(401, b"")
                self.answer(200, metrics.encode() if self.path == "/metrics" else json.dumps(info).encode())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                meta = {"spec_verify_ct": rounds} if rounds else {}
                self.answer(200, json.dumps({"output_ids": [1] * 64, "text": "x", "meta_info": meta}).encode())

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *ignored: object) -> None:
                """Silent."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            found = look_at_endpoint(f"http://127.0.0.1:{server.server_port}", None)
        finally:
            server.shutdown()
            server.server_close()
        return {finding.what: finding for finding in found}

    return look


def test_a_server_that_drafts_well_is_described(endpoint):
    found = endpoint()
    assert {finding.level for finding in found.values()} == {"ok"}
    assert "accepted length 3.94" in found["acceptance"].found and "3.50 since it started" in found["acceptance"].found
    assert "width 16" in found["speculation"].found and "{'8': 3}" in found["speculation"].found


def test_a_server_without_the_drafter_fails_with_the_flags_to_add(endpoint):
    found = endpoint({**INFO, "speculative_algorithm": None}, rounds=0)
    assert found["speculation"].level == found["acceptance"].level == "fail"
    assert "--speculative-draft-model-path" in found["speculation"].todo


def test_a_drafter_that_is_hardly_accepted_is_warned_of(endpoint):
    assert endpoint(rounds=60)["acceptance"].level == "warn"


def test_missing_metrics_are_warned_of(endpoint):
    assert "--enable-metrics" in endpoint(metrics="")["metrics"].todo


def test_a_key_that_is_missing_is_asked_for(endpoint):
    assert endpoint(key="k")["endpoint"].todo == "pass --api-key"


def test_nothing_there_is_one_finding():
    (found,) = look_at_endpoint("http://127.0.0.1:9")
    assert found.level == "fail" and "start it with ./serve.sh" in found.todo
