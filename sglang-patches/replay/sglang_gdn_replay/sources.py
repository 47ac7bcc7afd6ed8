"""Is this the SGLang that the hooks were written for, and are they in place?"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SGLANG = "0.5.23"
POOL = "sglang.srt.mem_cache.kv_cache_configurator:KVCacheConfigurator._build_hybrid_req_pool"
BACKENDS = "sglang.srt.layers.attention"
COMMIT = f"{BACKENDS}.hybrid_linear_attn_backend:HybridLinearAttnBackend.update_mamba_state_after_mtp_verify"
VERIFY = f"{BACKENDS}.linear.gdn_backend:GDNAttnBackend._replayssm_target_verify"
RINGS = "sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode"
SOURCES = {  # sha256 of the source text: what the hooks stand on, word for word
    POOL: "818b8d40f54c9d44b462466ad7d213ae6a71228c60de45d3a028c87a9f5694fb",
    COMMIT: "21bc3360a67ba0141072180026088ae8021cc4022cbf988d56d78f9009b64589",
    VERIFY: "bc0c7e24a1e0a934cd62cbe5ebe71013fde52aa2bbb3ef37b9382c39d705df27",
    f"{RINGS}:commit_gdn_replayssm_spec": "d4363ccd91800e3aa6925c689b27807b906669021e76c604c93d6acffe862ef7",
    f"{RINGS}:commit_gdn_replayssm_circular": "518e287bf0cac86db0eb798a36bdcfd4ebfbd628b4e74c449612780f8617f294",
}


class ReplayError(RuntimeError):
    """SGLang is not what the hooks were written for, or they had no effect."""


def find(place: str) -> Any:
    module, _, path = place.partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def digest(place: str) -> str:
    """Of the text on disk: nothing of SGLang is imported before it asks for that."""
    module, _, path = place.partition(":")
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"no module {module}")
    text = Path(spec.origin).read_text(encoding="utf-8")
    node: Any = ast.parse(text)
    for name in path.split("."):
        node = next((n for n in node.body if getattr(n, "name", None) == name), None)
        if node is None:
            raise AttributeError(f"{module} has no {path}")
    return hashlib.sha256(str(ast.get_source_segment(text, node)).encode()).hexdigest()


def require_sources() -> None:
    installed = version("sglang")
    if installed != SGLANG:
        raise ReplayError(f"found SGLang {installed}, expected {SGLANG}: look whether it serves the pair by itself")
    for place, expected in SOURCES.items():
        try:
            found = digest(place)
        except (ImportError, AttributeError, OSError, SyntaxError) as error:
            raise ReplayError(f"{place} could not be read: {error}") from error
        if found != expected:
            raise ReplayError(
                f"{place} is not SGLang {SGLANG}'s (sha256 {found[:12]}, expected {expected[:12]}): if the source "
                "patch is applied, uninstall this hook; otherwise reinstall SGLang"
            )


def require_hook(place: str, hook: Callable[..., Any]) -> None:
    """SGLang logs a hook that failed and goes on; half of this pair would lose states."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    target = place.replace(":", ".")
    applied = target in HookRegistry._patched and any(h is hook for _, h, _ in HookRegistry._hooks[target])
    if not applied or find(place) is inspect.unwrap(find(place)):
        raise ReplayError(f"the hook on {place} is not in place: SGLang's log of its start says why")
