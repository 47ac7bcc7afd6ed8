"""The command line starts fast and keeps its commands apart."""

import subprocess
import sys

from typer.testing import CliRunner

from sglang_dspine.cli.main import COMMANDS, app

HEAVY = ("torch", "numpy", "sglang", "transformers", "safetensors")


def test_a_start_imports_nothing_heavy():
    """In a process of its own: here pytest has long imported everything."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from sglang_dspine.cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_every_command_of_the_table_can_be_called_for_help():
    listing = CliRunner().invoke(app, ["--help"]).output
    for name in COMMANDS:
        result = CliRunner().invoke(app, [name, "--help"])
        assert result.exit_code == 0 and name in listing, name


def test_every_key_comes_from_serve_shs_variable_or_sglangs():
    from importlib import import_module
    from inspect import signature

    from sglang_dspine.serve.settings import KEY_VARIABLES

    assert KEY_VARIABLES == ["API_KEY", "SGLANG_API_KEY"]
    keyed = {}
    for name, module in COMMANDS.items():
        hints = signature(import_module(f"sglang_dspine.cli.{module}").command, eval_str=True).parameters
        if "api_key" in hints:
            keyed[name] = hints["api_key"].annotation.__metadata__[0].envvar
    assert keyed.keys() == {"audit", "bench", "doctor", "sampled-audit"}
    assert all(variables == KEY_VARIABLES for variables in keyed.values()), keyed


def test_an_unknown_command_is_refused():
    result = CliRunner().invoke(app, ["inspekt"])
    assert result.exit_code == 2 and "inspekt" in result.output


def test_a_broken_command_leaves_the_others_working(monkeypatch):
    monkeypatch.setitem(COMMANDS, "broken", "no_such_module")
    assert CliRunner().invoke(app, ["inspect", "--help"]).exit_code == 0


def test_a_package_that_is_missing_is_named_with_what_to_do(monkeypatch):
    from types import SimpleNamespace

    from sglang_dspine.cli import main

    def needs_torch() -> None:
        """A command."""
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(main, "import_module", lambda *a, **k: SimpleNamespace(command=needs_torch))
    result = CliRunner().invoke(app, ["inspect"])
    assert result.exit_code == 2
    assert "sglang-dspine inspect: needs torch, which comes with SGLang" in result.output
    assert "pip install '.[sglang]'" in result.output


def test_a_missing_module_of_our_own_is_no_advice(monkeypatch):
    monkeypatch.setitem(COMMANDS, "broken", "no_such_module")
    result = CliRunner().invoke(app, ["broken"])
    assert isinstance(result.exception, ModuleNotFoundError)


def test_brackets_of_a_hint_reach_the_reader(monkeypatch):
    from sglang_dspine.compat import check

    monkeypatch.setattr(check, "check_version", lambda: "no SGLang (pip install '.[sglang]')")
    monkeypatch.setattr(check, "check_symbols", list)
    assert "pip install '.[sglang]'" in CliRunner().invoke(app, ["check"]).output


def test_the_version_is_the_packages():
    from importlib.metadata import version

    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0 and result.output.strip() == f"sglang-dspine {version('sglang-dspine')}"
