"""The table of SGLang symbols is green on 0.5.23, and a change in SGLang is reported by the symbol's name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sglang_dspine.cli.main import app
from sglang_dspine.compat import check
from sglang_dspine.compat.symbols import SYMBOLS, Symbol
from sglang_dspine.errors import CompatError

WORKER = "sglang.srt.speculative.dflash_worker_v2"


@pytest.fixture
def sources(tmp_path):
    """A copy of the SGLang modules the table names, to be changed."""
    root = check.sglang_root()
    for module in {symbol.module for symbol in SYMBOLS}:
        path = Path(*module.split(".")).with_suffix(".py")
        if not (root / path).exists():
            path = Path(*module.split(".")) / "__init__.py"
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, tmp_path / path)
    return tmp_path


def edit(sources: Path, module: str, old: str, new: str) -> None:
    path = sources.joinpath(*module.split(".")).with_suffix(".py")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_every_symbol_is_as_expected_on_the_installed_sglang():
    assert check.check_version() is None
    assert check.check_symbols() == []


def test_a_renamed_method_is_named(sources):
    edit(sources, WORKER, "def _draft_write_ids", "def _draft_slots")
    assert check.check_symbols(sources) == [f"{WORKER}:DFlashWorkerV2._draft_write_ids: not found"]


def test_a_dropped_parameter_is_named_with_what_is_left(sources):
    edit(
        sources,
        "sglang.srt.speculative.spec_utils",
        "    prepared_step_indices: Optional",
        "    step_indices: Optional",
    )
    [problem] = check.check_symbols(sources)
    assert "commit_mamba_states_after_verify: parameters ['prepared_step_indices'] gone" in problem
    assert "step_indices" in problem


def test_a_renamed_attribute_is_named(sources):
    edit(sources, WORKER, "self._noise_embed_scale", "self._scale")
    assert check.check_symbols(sources) == [f"{WORKER}:DFlashWorkerV2.__init__: attributes ['_noise_embed_scale'] gone"]


def test_a_missing_module_is_named(sources):
    (sources / "sglang" / "srt" / "models" / "dflash.py").unlink()
    problems = check.check_symbols(sources)
    assert problems and all(p.endswith("module not found") and "sglang.srt.models.dflash:" in p for p in problems)


def test_a_file_that_is_no_python_is_named_with_what_to_do(sources):
    damaged = sources / "sglang" / "srt" / "models" / "dflash.py"
    damaged.write_text("def (")
    with pytest.raises(CompatError, match=r"dflash\.py is damaged .* install SGLang anew"):
        check.check_symbols(sources)


@pytest.mark.parametrize("symbol", SYMBOLS, ids=str)
def test_each_symbol_is_missed_when_it_is_gone(symbol, tmp_path):
    module = tmp_path.joinpath(*symbol.module.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text("")
    [problem] = check.check_symbols(tmp_path, [symbol])
    assert problem.startswith(f"{symbol}: not found")


def test_another_version_is_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(check.importlib.metadata, "version", lambda name: "0.5.24")
    with pytest.raises(CompatError, match=r"SGLang 0\.5\.24 found, 0\.5\.23 expected"):
        check.require_symbols()


def test_the_command_is_green_here():
    result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 0 and f"{len(SYMBOLS)} symbols as expected" in result.output


def test_the_command_fails_naming_the_symbol(monkeypatch):
    gone = Symbol("sglang.srt.speculative.spec_info", "SpeculativeAlgorithm.enroll")
    monkeypatch.setattr(check, "SYMBOLS", (gone,))
    monkeypatch.setattr(check.check_symbols, "__defaults__", (None, (gone,)))
    result = CliRunner().invoke(app, ["check", "--json"])
    assert result.exit_code == 1 and "SpeculativeAlgorithm.enroll: not found" in result.output
