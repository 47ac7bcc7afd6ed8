"""Fixtures shared by all tests, and what a run says at its end."""

from __future__ import annotations

import atexit
import gc
import sys

import pytest

from .support.process import GPU, set_environment

set_environment()
NOTES = {"caught": "tests.support.planted:CAUGHT", "ties": "tests.support.oracle:TIES"}


@pytest.fixture(scope="session")
def engines():
    """`engines(model_path, **server_args)`: real SGLang in this process, idle, its prefix cache empty."""
    if GPU:
        pytest.skip("the in-process engine runs SGLang on the CPU, on machines without a GPU")
    from .support.shared import SharedEngines

    atexit.register(gc.unfreeze)  # what an engine set aside must be collected before the interpreter ends
    shared = SharedEngines()
    yield shared
    shared.close()


@pytest.hookimpl(tryfirst=True)  # xdist reads the mark in the same hook
def pytest_collection_modifyitems(config, items) -> None:
    """Spread over processes (pytest -n 2 --dist loadgroup), one of them takes all tests of the engine, first."""
    if hasattr(config, "workerinput"):
        for item in items:
            if "engines" in item.fixturenames:
                item.add_marker(pytest.mark.xdist_group("engine"))
        items.sort(key=lambda item: "engines" not in item.fixturenames)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session) -> None:
    """A group that xdist does not see has its tests, and the servers they share, in every process."""
    if not hasattr(session.config, "workerinput") or not session.config.getvalue("loadgroup"):
        return
    for item in session.items:
        if item.get_closest_marker("xdist_group") and "@" not in item.nodeid.rpartition("]")[2]:
            raise pytest.UsageError(f"pytest-xdist does not group {item.nodeid}; install the pytest of pyproject.toml")


def noted(name: str):
    """What tests of this process have noted, or None where nothing loaded the notebook."""
    module, _, attribute = NOTES[name].partition(":")
    return getattr(sys.modules.get(module), attribute, None)


def pytest_sessionfinish(session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["notes"] = {name: noted(name) for name in NOTES}


class Notebook:
    """The notes of the processes that ran the tests, in the one that prints."""

    caught: dict[str, str] = {}  # noqa: RUF012  planted fault -> the check that caught it
    ties: list[str] = []  # noqa: RUF012  ties met: listed, never failed

    def add(self, notes: dict) -> None:
        self.caught.update(notes["caught"] or {})
        self.ties.extend(notes["ties"] or [])


NOTEBOOK = Notebook()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    NOTEBOOK.add(getattr(node, "workeroutput", {}).get("notes", dict.fromkeys(NOTES)))


def pytest_terminal_summary(terminalreporter) -> None:
    NOTEBOOK.add({name: noted(name) for name in NOTES})
    if NOTEBOOK.caught:
        terminalreporter.section("planted fault -> the check that caught it")
    for fault, check in NOTEBOOK.caught.items():
        terminalreporter.write_line(f"{fault:26s} -> {check}")
    for tie in NOTEBOOK.ties:
        terminalreporter.write_line(f"tie: {tie}")
