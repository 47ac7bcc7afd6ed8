"""Tokenizer worker processes (`--tokenizer-worker-num` > 1) must know the algorithm's name too.

uvicorn starts them by importing SGLang's HTTP app, a path on which SGLang 0.5.23 loads no plugins, and the name is
then unknown there. The parent hands uvicorn an app path of ours that loads the plugins first.
"""

from __future__ import annotations

from typing import Any

SGLANG_APP = "sglang.srt.entrypoints.http_server:app"
OUR_APP = "sglang_dspine.algorithm.tokenizer_app:app"


def teach_tokenizer_workers() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target in ("uvicorn.run", "uvicorn.Config.__init__"):
        HookRegistry.register(target, _with_our_app, HookType.AROUND)


def _with_our_app(original: Any, *args: Any, **kwargs: Any) -> Any:
    args = tuple(OUR_APP if a == SGLANG_APP else a for a in args)
    if kwargs.get("app") == SGLANG_APP:
        kwargs["app"] = OUR_APP
    return original(*args, **kwargs)
