"""Which model lies in a folder: enough to see that it was trained on, or replaced by one of the same size."""

from __future__ import annotations

import hashlib
from pathlib import Path

SAMPLES, SAMPLE = 16, 1 << 20  # of each file: its beginning, its end and what lies evenly between


def fingerprint(folder: Path) -> str:
    """Hex digits; of the config, and of names, sizes and samples of the weights. Small files are read whole.

    Raises:
        OSError: the folder holds no config.json.
    """
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            if size <= SAMPLES * SAMPLE:
                digest.update(file.read())
                continue
            for place in range(SAMPLES):
                file.seek((size - SAMPLE) * place // (SAMPLES - 1))
                digest.update(file.read(SAMPLE))
    return digest.hexdigest()[:20]
