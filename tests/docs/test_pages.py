"""Every page: links lead somewhere; files, commands, flags, modules and metrics that it names exist."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from sglang_dspine.cli.main import COMMANDS
from sglang_dspine.compat.check import sglang_root
from tests.docker.test_files import METRIC, exported

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("[!.]*/README.md")])
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
FOLDERS = "docker|scripts|sps-tuning|docs|sglang_dspine|tests|demo|requirements|benchmarks"
DOCKERS = {"--gpus", "--rm", "--entrypoint", "--file", "--tag", "--build-arg"}
OTHERS = {"--extra-inputs", "--server-metrics", "--output-file"}  # of programs that are not here


@cache
def known_flags() -> str:
    """Everything that spells a flag: SGLang's fields and choices, our scripts, our commands."""
    root = sglang_root() / "sglang/srt"
    sources = [
        *(root / "arg_groups").rglob("*.py"),
        root / "server_args.py",
        *ROOT.glob("*.sh"),
        *ROOT.glob("docker/*.yaml"),
    ]
    folders = [ROOT / "sglang_dspine", ROOT / "demo", ROOT / "tests/gpu", ROOT / "sps-tuning"]
    sources += [path for folder in folders for path in folder.rglob("*.py")]
    return "\n".join(path.read_text() for path in sources)


def is_flag(flag: str) -> bool:
    return bool(re.search(rf"{flag}(?![\w-])|\b{flag[2:].replace('-', '_')}\b", known_flags()))


def anchors(page: Path) -> set[str]:
    """GitHub's names of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_links_lead_to_files_and_headings(page):
    for link, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if link.startswith("http"):
            continue
        to = page.parent / link if link else page
        assert to.exists(), link
        assert not heading or heading in anchors(to), f"{link}#{heading}"


@every_page
def test_files_that_are_named_exist(page):
    for name in re.findall(rf"(?:^|[\s`(])((?:{FOLDERS})/[\w./-]+\.(?:\w+))", page.read_text()):
        assert (ROOT / name).exists(), name


@every_page
def test_every_command_is_one(page):
    named = set(re.findall(r"(?:^    |`|\n    )sglang-dspine ([a-z][a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= COMMANDS.keys(), named - COMMANDS.keys()


@every_page
def test_every_flag_is_one(page):
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", page.read_text())) - DOCKERS - OTHERS
    assert not [flag for flag in sorted(named) if not is_flag(flag)]


def test_a_flag_that_nothing_has_would_be_seen():
    assert is_flag("--mem-fraction-static") and is_flag("--dry-run") and not is_flag("--no-such-flag")


@every_page
def test_modules_that_are_run_exist(page):
    for module in re.findall(r"python -m ((?:sglang_dspine|demo|tests)[\w.]*)", page.read_text()):
        assert importlib.util.find_spec(module) is not None, module


@every_page
def test_every_metric_is_exported(page):
    named = {name for name in METRIC.findall(page.read_text()) if not name.endswith(("_", ":name"))}
    assert named <= exported(), named - exported()


def test_the_pages_that_a_newcomer_needs_are_there_and_say_something():
    named = {page.name: len(page.read_text().split()) for page in PAGES}
    wanted = [
        "CHANGELOG.md",
        "DEVELOPMENT.md",
        "deploy.md",
        "how-it-works.md",
        "measuring.md",
        "tuning.md",
        "upgrading.md",
    ]
    assert all(named[name] > 100 for name in wanted)
    assert 600 < named["how-it-works.md"] < 1200  # two pages, with the drawing
    readme = (ROOT / "README.md").read_text()
    assert all(f"({name})" in readme or f"(docs/{name})" in readme for name in wanted)


def test_the_operating_pages_name_what_they_must():
    """So that the tests above cannot pass on pages that name nothing."""
    text = "".join((ROOT / "docs" / name).read_text() for name in ("deploy.md", "tuning.md", "upgrading.md"))
    assert len(set(METRIC.findall(text))) > 12 and len(re.findall(r"(?<![\w-])--[a-z]", text)) > 30
