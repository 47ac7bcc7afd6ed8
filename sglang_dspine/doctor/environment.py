"""The Python environment: versions, symbols, whether SGLang would load the plugin."""

from __future__ import annotations

import importlib.metadata
import os
import sys

from ..compat.check import check_symbols, check_version
from ..compat.symbols import SYMBOLS
from ..errors import CompatError
from ..preflight.finding import FAIL, OK, WARN, Finding

OLDEST_PYTHON = (3, 11)  # SGLang 0.5.23's own demand
BESIDE = ("torch", "triton", "transformers", "flashinfer-python", "sglang-kernel", "flash-attn-4", "xgrammar")
GROUP, PLUGIN, STAND_IN = "sglang.srt.plugins", "dspine", "plain_cpu"  # the last: cpu/, of this repository


def look_at_environment() -> list[Finding]:
    return [_python(), *_sglang(), _beside(), _plugin()]


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding(FAIL, "Python", found, "SGLang 0.5.23 needs Python 3.11 or newer")
    return Finding(OK, "Python", f"{found}, {sys.executable}")


def _sglang() -> list[Finding]:
    try:
        version = check_version()
        if version:
            return [Finding(FAIL, "SGLang", version, "pip install sglang==0.5.23")]
        changed = check_symbols()
    except CompatError as error:
        return [Finding(FAIL, "SGLang", str(error), "pip install sglang==0.5.23")]
    if changed:
        named = "; ".join(changed[:3])
        return [
            Finding(FAIL, "SGLang", f"{len(changed)} symbols differ: {named}", "reinstall sglang==0.5.23 unpatched")
        ]
    return [Finding(OK, "SGLang", f"{importlib.metadata.version('sglang')}, {len(SYMBOLS)} symbols as expected")]


def _beside() -> Finding:
    found = {name: _version(name) for name in BESIDE}
    text = ", ".join(f"{name} {version or 'absent'}" for name, version in found.items())
    if found["torch"] is None:
        return Finding(FAIL, "packages", text, "pip install sglang==0.5.23 brings torch")
    return Finding(OK, "packages", text)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _plugin() -> Finding:
    """SGLang reads entry points, and of those, when SGLANG_PLUGINS is set, only the ones it names."""
    names = {entry.name for entry in importlib.metadata.entry_points(group=GROUP)}
    if PLUGIN not in names:
        missing = f"no entry point {PLUGIN} in {GROUP}: SGLang in this environment would not find it"
        return Finding(FAIL, "plugin", missing, "install this package into the same environment: pip install .")
    chosen = os.environ.get("SGLANG_PLUGINS")
    if chosen is not None and PLUGIN not in [word.strip() for word in chosen.split(",")]:
        return Finding(FAIL, "plugin", f"SGLANG_PLUGINS={chosen} leaves it out", f"add {PLUGIN} to it, or unset it")
    if others := ", ".join(sorted(names - {PLUGIN, STAND_IN})):
        return Finding(
            WARN, "plugin", f"visible to SGLang, beside {others}", "plugins that patch the same code may clash"
        )
    return Finding(OK, "plugin", "visible to SGLang")
