"""The table itself: nothing that the package takes from SGLang is left out, and every entry would be missed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sglang_dspine
from sglang_dspine.compat import check
from sglang_dspine.compat.check import check_symbols, sglang_root
from sglang_dspine.compat.symbols import SYMBOLS, Symbol

PACKAGE = Path(sglang_dspine.__file__).parent


def imported() -> set[tuple[str, str]]:
    """(module, name) of everything that the package imports from SGLang."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sglang."):
                found |= {(str(node.module), alias.name) for alias in node.names}
    return found


def test_whatever_the_package_imports_from_sglang_is_in_the_table():
    known = {(symbol.module, symbol.name.split(".")[0]) for symbol in SYMBOLS}
    known |= {tuple(symbol.module.rsplit(".", 1)) for symbol in SYMBOLS}  # a module imported by name
    assert sorted(imported() - known) == []


def parsed(symbol: Symbol) -> ast.Module:
    base = sglang_root().joinpath(*symbol.module.split("."))
    return check._module(base.with_suffix(".py")) or check._module(base / "__init__.py")


def found(symbol: Symbol) -> tuple[ast.AST, ast.AST]:
    """(holder, definition) of a symbol in SGLang's parsed sources."""
    holder = node = parsed(symbol)
    for part in symbol.name.split("."):
        holder, node = node, check._child(node, part)
    return holder, node


@pytest.mark.parametrize("symbol", [s for s in SYMBOLS if s.params], ids=str)
def test_each_parameter_of_the_table_would_be_missed(symbol, monkeypatch):
    arguments = found(symbol)[1].args
    assert check_symbols(symbols=[symbol]) == []
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg in symbol.params:
            with monkeypatch.context() as patch:
                patch.setattr(argument, "arg", "other")
                (problem,) = check_symbols(symbols=[symbol])
            assert str(symbol) in problem and "gone" in problem and "'other'" in problem


@pytest.mark.parametrize("symbol", [s for s in SYMBOLS if s.attrs], ids=str)
def test_each_attribute_of_the_table_would_be_missed(symbol, monkeypatch):
    holder, node = found(symbol)
    owner = node if isinstance(node, ast.ClassDef) else holder
    assert isinstance(owner, ast.ClassDef), "attributes belong to a class"
    declared = check._attributes(owner)
    for name in symbol.attrs:
        monkeypatch.setattr(check, "_attributes", lambda owner, gone=name: declared - {gone})
        (problem,) = check_symbols(symbols=[symbol])
        assert str(symbol) in problem and f"'{name}'" in problem
