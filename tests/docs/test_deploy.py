"""docs/deploy.md, and links of every page: links lead somewhere; commands, flags, variables and metrics exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sglang_dspine.cli.main import COMMANDS
from sglang_dspine.compat.check import sglang_root
from tests.docker.test_files import METRIC, exported

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "deploy.md"
TEXT = PAGE.read_text()
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")]
OTHERS = {"--gpus", "--rm", "--entrypoint", "--file", "--tag"}  # docker's


def known_flags() -> str:
    """Everything that spells a flag: SGLang's fields and choices, serve.sh, our commands."""
    root = sglang_root() / "sglang/srt"
    sources = [*(root / "arg_groups").rglob("*.py"), root / "server_args.py", ROOT / "serve.sh"]
    sources += [*(ROOT / "sglang_dspine/cli").glob("*.py"), *(ROOT / "sglang_dspine/serve").glob("*.py")]
    return "\n".join(path.read_text() for path in sources)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_files_that_are_named_exist():
    for name in re.findall(r"(?:^|[\s`(])((?:docker|scripts|sps-tuning|docs|sglang_dspine)/[\w./-]+\.\w+)", TEXT):
        assert (ROOT / name).exists(), name


def test_every_command_is_one():
    named = re.findall(r"(?<!-)\bsglang-dspine (?!sglang)([a-z][a-z-]+)", TEXT)
    assert {"doctor", "check", "audit"} <= set(named) and set(named) <= COMMANDS.keys()


def test_every_flag_is_one():
    known = known_flags()
    for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", TEXT)) - OTHERS:
        field = re.compile(rf"{flag}\b|\b{flag[2:].replace('-', '_')}\b")
        assert field.search(known), flag


def test_every_metric_is_exported():
    named = set(METRIC.findall(TEXT))
    assert len(named) > 8 and named <= exported(), named - exported()


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
