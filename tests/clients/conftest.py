"""One endpoint for all clients: the demo pair, as serve.sh serves it."""

from __future__ import annotations

import pytest

from ..support.http_server import HttpServer
from ..support.pairs import demo

KEY = "a-key"


@pytest.fixture(scope="package")
def endpoint():
    pair = demo()
    draft = {"speculative_algorithm": "DSPINE", "speculative_draft_model_path": pair.draft}
    with HttpServer(pair.target, api_key=KEY, enable_metrics=True, timeout_s=600, **draft) as server:
        yield server
