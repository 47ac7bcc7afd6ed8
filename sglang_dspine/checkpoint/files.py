"""The weight files of a checkpoint folder, and every tensor in them by canonical name."""

from __future__ import annotations

import json
from pathlib import Path

from ..config.reference import MODEL_FILE, TRANSFER_FILE, is_reference_form
from ..errors import CheckpointError
from ..headers import Stored, read_header

INDEX_FILE = f"{MODEL_FILE}.index.json"
CODES = "transfer_codes"


def canonical_name(name: str) -> str:
    """Names of layout 1. A leading `model.` is harmless; SGLang's own DFlash loader takes both forms."""
    return name.removeprefix("model.")


def read_tensors(folder: Path) -> tuple[dict[str, Stored], list[CheckpointError]]:
    """Every tensor of the checkpoint from the headers of its files: canonical name to where it is stored.

    Files that cannot be read, and names stored twice, are returned as problems.
    """
    tensors: dict[str, Stored] = {}
    problems: list[CheckpointError] = []
    try:
        files, placed = _weight_files(folder)
    except CheckpointError as error:
        return tensors, [error]
    for file in files:
        try:
            header = read_header(file)
        except CheckpointError as error:
            problems.append(error)
            continue
        problems += _check_placement(file, header, placed)
        for name, stored in header.items():
            _add(tensors, canonical_name(name), stored, problems)
    _add_reference_codes(folder, tensors, problems)
    return tensors, problems


def _weight_files(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """The files that hold the weights and, for a sharded checkpoint, the index's tensor-to-file map."""
    index = folder / INDEX_FILE
    if index.exists():
        placed = _read_index(index)
        return [folder / name for name in sorted(set(placed.values()))], placed
    single = folder / MODEL_FILE
    if single.exists():
        return [single], {}
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return others, {}
    found = ", ".join(path.name for path in others) or "no safetensors file"
    raise CheckpointError(
        str(folder),
        "cannot tell which file holds the weights",
        expected=f"{MODEL_FILE} or {INDEX_FILE}",
        found=found,
    )


def _read_index(path: Path) -> dict[str, str]:
    try:
        placed = json.loads(path.read_bytes())["weight_map"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(
            str(path), "is no safetensors index", expected='{"weight_map": {tensor: file}}', found=repr(error)
        ) from error
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError(str(path), "weight_map is no map", expected="{tensor: file}", found=repr(placed)[:80])
    for name, file in placed.items():
        # a shard outside the folder would be another checkpoint's file
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".", ".."):
            raise CheckpointError(
                str(path),
                f"weight_map of {name} is no file name",
                expected="a file beside the index",
                found=repr(file)[:80],
            )
    return placed


def _check_placement(file: Path, header: dict[str, Stored], placed: dict[str, str]) -> list[CheckpointError]:
    """Tensors that the index promises in this file and the file does not hold."""
    absent = sorted(name for name, home in placed.items() if home == file.name and name not in header)
    return [
        CheckpointError(str(file), f"tensor {name} is missing", expected=f"here, as {INDEX_FILE} says", found="nothing")
        for name in absent
    ]


def _add(tensors: dict[str, Stored], name: str, stored: Stored, problems: list[CheckpointError]) -> None:
    if name in tensors:
        homes = [f"{place.name} in {place.file.name}" for place in (tensors[name], stored)]
        problems.append(
            CheckpointError(
                str(stored.file), f"tensor {name} is stored twice", expected="once", found=" and ".join(homes)
            )
        )
        return
    tensors[name] = stored


def _add_reference_codes(folder: Path, tensors: dict[str, Stored], problems: list[CheckpointError]) -> None:
    """Layout 2: `codes` of transfer.safetensors are the transfer_codes; its other tensors served training."""
    if problems or not is_reference_form(folder):
        return
    path = folder / TRANSFER_FILE
    try:
        header = read_header(path)
    except CheckpointError as error:
        problems.append(error)
        return
    if "codes" not in header:
        problems.append(
            CheckpointError(
                str(path),
                "tensor codes is missing",
                expected="codes [vocab_size, transfer_rank]",
                found=", ".join(sorted(header)) or "no tensor",
            )
        )
        return
    tensors[CODES] = header["codes"]
