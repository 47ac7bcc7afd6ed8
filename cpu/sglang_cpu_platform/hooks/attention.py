"""Keep the `intel_amx` attention backend on a CPU without AMX."""

from __future__ import annotations


def keep_on_cpu(fallback, view):
    return {} if view.device == "cpu" else fallback(view)


def install() -> None:
    from sglang.srt.arg_groups.choices import add_draft_attention_backend_choices
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from ..platform import ATTENTION_BACKEND  # late: SGLang must have been imported from its own side first

    target = "sglang.srt.arg_groups.overrides._attention_backend_platform_fallbacks"
    HookRegistry.register(target, keep_on_cpu, HookType.AROUND)
    add_draft_attention_backend_choices([ATTENTION_BACKEND])
