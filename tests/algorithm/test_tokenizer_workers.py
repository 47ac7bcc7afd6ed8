"""Tokenizer worker processes start from an app of ours that loads the plugins first; nothing else is touched."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from sglang.srt.plugins.hook_registry import HookRegistry
from sglang.srt.speculative import spec_registry

from sglang_dspine.algorithm import tokenizer_workers
from sglang_dspine.algorithm.registration import register_algorithm
from sglang_dspine.algorithm.tokenizer_workers import OUR_APP, SGLANG_APP


def given_to(*args, **kwargs):
    return tokenizer_workers._with_our_app(lambda *a, **k: (a, k), *args, **kwargs)


def test_sglangs_app_becomes_ours_by_position_or_by_name():
    assert given_to(SGLANG_APP, workers=4) == ((OUR_APP,), {"workers": 4})
    assert given_to(app=SGLANG_APP) == ((), {"app": OUR_APP})
    assert given_to("self", SGLANG_APP) == (("self", OUR_APP), {})


def test_any_other_app_is_left_alone():
    app = SimpleNamespace()
    assert given_to(app, host="x") == ((app,), {"host": "x"})
    assert given_to(app="other:app") == ((), {"app": "other:app"})


def test_our_app_is_a_module_that_loads_plugins_before_sglangs_app():
    module = OUR_APP.partition(":")[0]
    source = (tokenizer_workers.__file__.rpartition("/")[0] + "/" + module.rpartition(".")[2]) + ".py"
    lines = [line for line in Path(source).read_text().splitlines() if line and not line.startswith(("#", '"'))]
    assert lines.index("load_plugins()") < next(i for i, line in enumerate(lines) if "import app" in line)


def test_registering_again_adds_no_second_hook(monkeypatch):
    hooks = HookRegistry._hooks.__class__(list)
    monkeypatch.setattr(HookRegistry, "_hooks", hooks)
    monkeypatch.setattr(spec_registry, "_REGISTRY", {})
    for _ in range(3):
        register_algorithm()
    assert {"uvicorn.run", "uvicorn.Config.__init__"} <= set(hooks)
    assert {len(found) for found in hooks.values()} == {1}
