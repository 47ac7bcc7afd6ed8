"""Versions, symbols, the plugin."""

from __future__ import annotations

import pytest

from sglang_dspine.doctor import environment
from sglang_dspine.doctor.environment import look_at_environment


def named(what: str):
    return next(finding for finding in look_at_environment() if finding.what == what)


@pytest.fixture
def no_symbols(monkeypatch):
    """Comparing them takes seconds."""
    monkeypatch.setattr(environment, "check_symbols", lambda: [])


def test_a_complete_environment_has_no_failure():
    assert all(finding.level != "fail" for finding in look_at_environment())
    assert "0.5.23" in named("SGLang").found and "torch" in named("packages").found


def test_another_sglang_fails_with_the_command_that_mends_it(monkeypatch, no_symbols):
    monkeypatch.setattr(environment, "check_version", lambda: "SGLang 0.5.22 found, 0.5.23 expected")
    assert named("SGLang").level == "fail" and "sglang==0.5.23" in named("SGLang").todo


def test_changed_symbols_fail(monkeypatch):
    monkeypatch.setattr(environment, "check_symbols", lambda: ["a differs", "b is gone"])
    assert "2 symbols differ: a differs" in named("SGLang").found


@pytest.mark.parametrize(
    ("chosen", "level"), [("dspine", "ok"), ("other, dspine", "ok"), ("other", "fail"), ("", "fail")]
)
def test_a_list_of_plugins_must_name_ours(monkeypatch, no_symbols, chosen, level):
    monkeypatch.setenv("SGLANG_PLUGINS", chosen)
    assert named("plugin").level == level


def test_an_environment_without_the_plugin_is_told_to_install_it(monkeypatch, no_symbols):
    monkeypatch.setattr(environment.importlib.metadata, "entry_points", lambda group: [])
    assert named("plugin").level == "fail" and "pip install ." in named("plugin").todo
