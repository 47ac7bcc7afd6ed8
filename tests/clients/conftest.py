"""One endpoint for all clients: the demo pair with the demo's flags, a key, and widths that follow the load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..support.http_server import HttpServer
from ..support.pairs import demo

KEY = "a-key"
WIDTHS = [16, 8, 1]  # of 1, 2, more running requests: three answers at once are plain decode
AREA = [{"role": "user", "content": "def area(width, height):"}]
NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.fixture(scope="package")
def endpoint(tmp_path_factory):
    pair, table = demo(), Path(tmp_path_factory.mktemp("widths")) / "sps.json"
    table.write_text(json.dumps({"version": 1, "widths": WIDTHS, "provenance": {"gpu": "none", "source": "a test"}}))
    flags = {
        "speculative_algorithm": "DSPINE",
        "speculative_draft_model_path": pair.draft,
        "speculative_dspark_sps_table_path": str(table),
        "tool_call_parser": "pythonic",  # its grammar of a required call is plain JSON, which a tiny model can end
        "constrained_json_disable_any_whitespace": True,  # a tiny model never stops between JSON's marks
    }
    with HttpServer(pair.target, api_key=KEY, enable_metrics=True, timeout_s=600, **flags) as server:
        yield server
