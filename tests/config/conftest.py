from pathlib import Path

import pytest


@pytest.fixture
def vectors() -> Path:
    return Path(__file__).parents[1] / "data" / "vectors"
