"""The reference form (layout 2): its config is brought to what the reference really ran.

The reference implementation used block 16, 16 candidates and full attention whatever its config said,
and SpecForge's converter (scripts/convert_dspine_checkpoint.py) writes exactly that. Rank and message
size stand in the weights, not in the config.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..headers import read_header
from .draft import ARCHITECTURE
from .fields import show, unwrap

MODEL_FILE, TRANSFER_FILE = "model.safetensors", "transfer.safetensors"
BLOCK = TOP_K = 16


def is_reference_form(folder: Path) -> bool:
    """Layout 2: codes in a file of their own, none in the model file."""
    if not (folder / TRANSFER_FILE).exists() or (folder / f"{MODEL_FILE}.index.json").exists():
        return False
    names = read_header(folder / MODEL_FILE)
    return not any(name.removeprefix("model.") == "transfer_codes" for name in names)


def normalise_reference(raw: Any, folder: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The config in layout 1 form, and a sentence for each statement of it that was overruled."""
    given = unwrap(raw, str(folder / "config.json"))
    config, notes = dict(given), []
    dflash = _section(given, "dflash_config", folder)
    dspine = _section(given, "dspine_config", folder)

    def force(section: dict[str, Any], key: str, value: object, stated: object) -> None:
        if stated is not None and stated != value:
            notes.append(f"{key} {show(stated)} gives way to {show(value)}, which is what the reference ran")
        section[key] = value

    layers = given.get("num_hidden_layers")
    full = ["full_attention"] * (layers if type(layers) is int and 0 < layers < 1000 else 0)
    kept: dict[str, Any] = {key: dflash[key] for key in ("mask_token_id", "target_layer_ids") if key in dflash}
    dropped = sorted(set(dflash) - set(kept) - {"block_size"})
    if dropped:
        notes.append(f"dflash_config entries {dropped} are not part of the reference and are left out")
    force(config, "block_size", BLOCK, given.get("block_size"))
    force(kept, "block_size", BLOCK, dflash.get("block_size"))
    force(config, "layer_types", full, given.get("layer_types"))
    force(config, "use_sliding_window", False, given.get("use_sliding_window"))
    force(config, "sliding_window", None, given.get("sliding_window"))
    sizes = _sizes_from_weights(folder) | dspine
    force(sizes, "top_k", TOP_K, dspine.get("top_k"))
    config |= {"architectures": [ARCHITECTURE], "model_type": "qwen3", "dflash_config": kept}
    config["dspine_config"] = sizes
    config.pop("auto_map", None)
    return config, tuple(notes)


def _section(given: dict[str, Any], name: str, folder: Path) -> dict[str, Any]:
    section = given.get(name) or {}
    if not isinstance(section, dict):
        raise CheckpointError(str(folder / "config.json"), f"{name} is no object", found=show(section))
    return section


def _sizes_from_weights(folder: Path) -> dict[str, Any]:
    header = read_header(folder / MODEL_FILE)
    shapes = {name.removeprefix("model."): stored.shape for name, stored in header.items()}
    places = {"transfer_rank": "injection.readouts.0.weight", "message_size": "injection.message.weight"}
    return {key: shapes[name][0] for key, name in places.items() if shapes.get(name)}
