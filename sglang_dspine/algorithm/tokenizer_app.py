"""SGLang's HTTP app for a tokenizer worker process, with plugins loaded first."""

from sglang.srt.plugins import load_plugins

load_plugins()

from sglang.srt.entrypoints.http_server import app  # noqa: E402

__all__ = ["app"]
