"""One engine at a time, kept while tests ask for the same configuration."""

from __future__ import annotations

import json

from .engine import InProcessEngine


class SharedEngines:
    """`engines(model_path, **server_args)` is an idle engine with an empty prefix cache."""

    def __init__(self) -> None:
        self._key, self._engine = "", None

    def __call__(self, model_path: str, **server_args) -> InProcessEngine:
        key = json.dumps([model_path, server_args], sort_keys=True)
        if self._engine is not None and self._engine.alive and key == self._key:
            self._engine.flush()
            self._engine.outputs.clear()
            return self._engine
        self.close()
        self._key, self._engine = key, InProcessEngine(model_path, **server_args)
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
