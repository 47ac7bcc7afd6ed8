"""docs/deploy.md: settings, messages, routes and fields are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sglang_dspine.compat.check import sglang_root

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "deploy.md").read_text()


@pytest.mark.parametrize(
    "name", ["MODEL", "DRAFT", "PORT", "HOST", "API_KEY", "START_LIMIT", "PREFLIGHT", "DSPINE_CACHE"]
)
def test_settings_that_are_named_are_read(name):
    assert name in TEXT and f'"{name}"' in (ROOT / "sglang_dspine/serve/settings.py").read_text()


def test_messages_that_the_table_quotes_are_said():
    said = "\n".join(path.read_text() for path in (ROOT / "sglang_dspine/serve").glob("*.py"))
    for message in ("not started. ", "prefill is garbage", "decode is garbage"):
        assert message in TEXT and message in said


def test_both_apis_are_served_by_the_sglang_that_is_installed():
    server = (sglang_root() / "sglang/srt/entrypoints/http_server.py").read_text()
    for route in re.findall(r"`(/v1/[a-z_/]+)`", TEXT):
        assert f'"{route}"' in server, route


def test_the_fields_of_a_request_are_those_of_sglangs_openai_answers():
    protocol = (sglang_root() / "sglang/srt/entrypoints/openai/protocol.py").read_text()
    fields = set(re.findall(r"^\| `(spec_\w+)` \|", TEXT, re.MULTILINE))
    assert {"spec_accept_length", "spec_cap_length", "spec_cap_lens_histogram"} <= fields
    assert all(f"    {field}: " in protocol for field in fields), fields
