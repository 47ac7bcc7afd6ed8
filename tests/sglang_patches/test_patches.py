"""The source patches fit the installed SGLang 0.5.23, once."""

from __future__ import annotations

import py_compile

import pytest

from .overlay import PATCHES, apply, copied, files_of, installed

pytestmark = pytest.mark.report(2)


@pytest.fixture
def sources(tmp_path):
    return copied(tmp_path)


def test_they_apply_without_fuzz_and_what_they_leave_compiles(sources):
    assert len(PATCHES) == 2
    for patch in PATCHES:
        for options in (("--dry-run",), ()):
            done = apply(patch, sources, *options)
            assert done.returncode == 0 and "offset" not in done.stdout, done.stdout + done.stderr
        for name in files_of(patch):
            py_compile.compile(str(sources / name), doraise=True)
            assert (sources / name).read_bytes() != (installed() / name).read_bytes()


def test_reversed_they_leave_the_sources_as_they_were(sources):
    for patch in PATCHES:
        apply(patch, sources)
        assert apply(patch, sources, "-R").returncode == 0
        assert all((sources / name).read_bytes() == (installed() / name).read_bytes() for name in files_of(patch))


def test_they_are_refused_where_they_were_applied_already_or_the_source_is_another(sources):
    for patch in PATCHES:
        apply(patch, sources)
        assert apply(patch, sources, "--forward", "--dry-run").returncode != 0
        assert apply(patch, sources, "-R").returncode == 0
        for name in files_of(patch):
            path = sources / name
            path.write_text(path.read_text().replace("mask", "cover").replace("DFLASH", "OTHER"))
        assert apply(patch, sources, "--dry-run").returncode != 0


@pytest.mark.parametrize("number", ["sglang#35725", "sglang#36683", "sglang#35324"])
def test_they_name_the_upstream_reports_they_answer(number):
    assert any(number in patch.read_text().split("--- a/")[0] for patch in PATCHES)
