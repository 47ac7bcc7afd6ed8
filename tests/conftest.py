"""Fixtures shared by all tests."""

from __future__ import annotations

import pytest

from .support.process import GPU, set_environment

set_environment()


@pytest.fixture(scope="session")
def engines():
    """`engines(model_path, **server_args)`: real SGLang in this process, idle, its prefix cache empty."""
    if GPU:
        pytest.skip("the in-process engine runs SGLang on the CPU, on machines without a GPU")
    from .support.shared import SharedEngines

    shared = SharedEngines()
    yield shared
    shared.close()
