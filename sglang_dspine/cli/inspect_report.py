"""The findings of `inspect` as one plain dictionary, and as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..checkpoint import Examination
from ..checkpoint.parts import by_part
from ..config import DraftConfig
from ..headers import Stored


def report(seen: Examination) -> dict[str, Any]:
    """Everything `inspect` knows, fit for JSON."""
    return {
        "path": str(seen.folder),
        "loads": not seen.problems,
        "layout": None if seen.layout is None else {"number": seen.layout.value, "name": str(seen.layout)},
        "config_sha256": None if seen.source is None else seen.source.sha256,
        "config": None if seen.config is None else asdict(seen.config),
        "proposals": None if seen.config is None else seen.config.num_proposals,
        "rope_range": None if seen.config is None else seen.config.rope_range,
        "groups": _groups(seen.tensors),
        "bytes": sum(stored.nbytes for stored in seen.tensors.values()),
        "notes": [] if seen.source is None else list(seen.source.notes),
        "problems": [str(problem) for problem in seen.problems],
    }


def _groups(tensors: dict[str, Stored]) -> dict[str, dict[str, Any]]:
    return {part: _summary(stored) for part, stored in by_part(tensors).items()}


def _summary(stored: list[Stored]) -> dict[str, Any]:
    shapes = sorted({tensor.shape for tensor in stored}, key=lambda shape: (-len(shape), shape))
    return {
        "tensors": len(stored),
        "bytes": sum(tensor.nbytes for tensor in stored),
        "dtypes": sorted({tensor.dtype for tensor in stored}),
        "shapes": [list(shape) for shape in shapes],
    }


def show(findings: dict[str, Any], console: Console | None = None) -> None:
    """Print the findings; paths and tensor names are never read as markup."""
    console = console or Console(soft_wrap=True)
    layout = findings["layout"]
    named = f"layout {layout['number']} ({layout['name']})" if layout else "no readable weights"
    console.print(Text(f"{findings['path']}: {named}, {_size(findings['bytes'])}"))
    if findings["config_sha256"]:
        console.print(Text(f"config.json sha256 {findings['config_sha256']}"))
    if findings["config"]:
        console.print(_table(["setting", "value"], _settings(DraftConfig(**findings["config"]))))
    if findings["groups"]:
        rows = [
            (group, str(entry["tensors"]), _size(entry["bytes"]), " ".join(entry["dtypes"]), _shapes(entry))
            for group, entry in findings["groups"].items()
        ]
        console.print(_table(["tensors", "count", "size", "dtype", "shapes"], rows))
    for note in findings["notes"]:
        console.print(Text(f"note: {note}"))
    for problem in findings["problems"]:
        console.print(Text(f"problem: {problem}", style="red"))
    count = len(findings["problems"])
    verdict = "would load" if findings["loads"] else f"would not load: {count} problem{'s' * (count > 1)}"
    console.print(Text(verdict, style="bold green" if findings["loads"] else "bold red"))


def _settings(config: DraftConfig) -> list[tuple[str, str]]:
    rope = "plain" if config.rope_scaling is None else f"YaRN x{config.rope_scaling['factor']:g}"
    sliding = sum(kind == "sliding_attention" for kind in config.layer_types)
    taps = ", ".join(map(str, config.target_layer_ids))
    window = f"{config.sliding_window} positions in {sliding} of {config.num_layers} layers" if sliding else "none"
    return [
        ("block", f"{config.block_size} rows: the anchor and {config.num_proposals} proposals"),
        ("taps", f"{taps} of {config.num_target_layers or 'unknown'} target layers"),
        ("mask token", str(config.mask_token_id)),
        ("window", window),
        ("rope", f"{rope}, theta {config.rope_theta:g}, positions 0 .. {config.rope_range - 1}"),
        ("hidden, layers", f"{config.hidden_size}, {config.num_layers}"),
        ("heads", f"{config.num_heads} query, {config.num_kv_heads} key/value, width {config.head_dim}"),
        ("intermediate", str(config.intermediate_size)),
        ("vocabulary", str(config.vocab_size)),
        (
            "bridge",
            f"rank {config.transfer_rank}, message {config.message_size}, {config.top_k} candidates a row",
        ),
    ]


def _table(header: list[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, title in enumerate(header):
        table.add_column(title, overflow="fold", no_wrap=column == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _shapes(entry: dict[str, Any], limit: int = 4) -> str:
    shapes = ["x".join(map(str, shape)) or "scalar" for shape in entry["shapes"]]
    return ", ".join(shapes[:limit]) + (f" and {len(shapes) - limit} more" if len(shapes) > limit else "")


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} GB"
