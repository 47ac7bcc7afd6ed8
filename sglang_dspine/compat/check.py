"""Check `symbols.SYMBOLS` against the installed SGLang by reading its sources: nothing heavy is imported."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ..errors import CompatError
from .symbols import SGLANG_VERSION, SYMBOLS, Symbol

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def sglang_root() -> Path:
    """Folder that contains the installed `sglang` package. Raises CompatError when there is none."""
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise CompatError(
            f"SGLang is not installed; DSPINE needs sglang=={SGLANG_VERSION} (pip install '.[sglang]' in the folder of "
            "this project)"
        )
    return Path(next(iter(spec.submodule_search_locations))).parent


def check_version() -> str | None:
    """A sentence when the installed SGLang is not the one this plugin was proven on, else None."""
    try:
        found = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return f"SGLang is not installed as a distribution; expected sglang=={SGLANG_VERSION}"
    if found == SGLANG_VERSION:
        return None
    return f"SGLang {found} found, {SGLANG_VERSION} expected: install sglang=={SGLANG_VERSION}"


def check_symbols(root: Path | None = None, symbols: Iterable[Symbol] = SYMBOLS) -> list[str]:
    """One sentence for each symbol that is missing or has changed; empty when all is as expected."""
    root = root or sglang_root()
    return [problem for symbol in symbols for problem in _problems(root, symbol)]


def require_symbols() -> None:
    """Raise CompatError naming the version and every symbol that differs."""
    problems = ([version] if (version := check_version()) else []) + check_symbols()
    if problems:
        raise CompatError("; ".join(problems) + " (see `sglang-dspine check`)")


@cache
def _module(path: Path) -> ast.Module | None:
    """Raises CompatError for a file that is no Python."""
    if not path.is_file():
        return None
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:
        raise CompatError(
            f"{path} is damaged ({error}); install SGLang anew: pip install --force-reinstall --no-deps "
            f"sglang=={SGLANG_VERSION}"
        ) from None


def _problems(root: Path, symbol: Symbol) -> list[str]:
    base = root.joinpath(*symbol.module.split("."))
    tree = _module(base.with_suffix(".py")) or _module(base / "__init__.py")
    if tree is None:
        return [f"{symbol}: module not found"]
    node: ast.AST = tree
    owner: ast.AST = tree
    for part in symbol.name.split("."):
        owner = node
        found = _child(node, part)
        if found is None:
            return [f"{symbol}: not found" + (f" (needed for: {symbol.why})" if symbol.why else "")]
        node = found
    problems = []
    if symbol.params and isinstance(node, _Function):
        missing = [p for p in symbol.params if p not in _parameters(node)]
        if missing:
            problems.append(f"{symbol}: parameters {missing} gone; it now takes {_parameters(node)}")
    holder = node if isinstance(node, ast.ClassDef) else owner
    missing = [a for a in symbol.attrs if isinstance(holder, ast.ClassDef) and a not in _attributes(holder)]
    if missing:
        problems.append(f"{symbol}: attributes {missing} gone")
    return problems


def _child(node: ast.AST, name: str) -> ast.AST | None:
    """The definition of `name` directly inside a module or class (also under if / try)."""
    for item in ast.iter_child_nodes(node):
        if isinstance(item, (*_Function, ast.ClassDef)) and item.name == name:
            return item
        if isinstance(item, (ast.Assign, ast.AnnAssign)):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                return item
        if isinstance(item, (ast.If, ast.Try)) and (found := _child(item, name)) is not None:
            return found
    return None


def _parameters(node: ast.AST) -> list[str]:
    args = node.args  # type: ignore[attr-defined]
    return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _attributes(node: ast.ClassDef) -> set[str]:
    """Names a class declares in its body or assigns to `self` anywhere."""
    names = set()
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "self":
            if isinstance(item.ctx, ast.Store):
                names.add(item.attr)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names.add(item.target.id)
    return names
