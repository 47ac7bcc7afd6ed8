"""A folder that SGLang can open, for checkpoints whose config.json it would misread.

SGLang reads config.json through transformers: a wrapped config fails there, and one without `is_causal` and
`layer_types` is served with a bidirectional block (models/dflash.py), and one without a dtype as float16, whatever the
target is (configs/model_config.py). The view holds a normalised config.json and links
to the weights; the checkpoint itself is never written to.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from ..config.parse import load_config
from ..config.reference import is_reference_form
from ..config.render import render_config


def servable_folder(folder: Path, cache: Path | None = None) -> Path:
    """`folder` itself when SGLang reads its config.json rightly, else a view of it below `cache`."""
    config = load_config(folder)
    if not is_reference_form(folder) and _says_all(folder):
        return folder
    text = json.dumps(render_config(config) | {"dtype": "bfloat16"}, indent=1, sort_keys=True)
    source = folder.resolve()
    key = hashlib.sha256(f"{source}\n{text}".encode()).hexdigest()[:16]
    view = (cache or default_cache()) / "views" / key
    view.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        link = view / file.name
        if file.name != "config.json" and not link.is_symlink():
            link.symlink_to(file)
    draft = view / f".config.{os.getpid()}"
    draft.write_text(text)
    draft.replace(view / "config.json")  # several processes may build the same view
    return view


def default_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "sglang-dspine"


def _says_all(folder: Path) -> bool:
    raw = json.loads((folder / "config.json").read_text())
    causal = "config" not in raw and raw.get("is_causal") is True and isinstance(raw.get("layer_types"), list)
    return causal and bool(raw.get("dtype") or raw.get("torch_dtype"))
