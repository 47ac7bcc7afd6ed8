"""Tile sizes of the bridge's launches, by the number of rows; `bench/bridge_sweep.py` times others."""

from __future__ import annotations

from dataclasses import dataclass

from ..launch import PROGRAMS, ceil_div, power_below, tile
from .kernel import MOST_PARTS


@dataclass(frozen=True)
class Tiles:
    rows: int  # of one program, in each launch
    depth: int  # of one step of a product
    read: int  # columns of one program of the read-out
    parts: int  # that the read-out's depth is split into
    message: int  # columns of one program
    write: int
    read_warps: int
    message_warps: int
    write_warps: int
    read_stages: int
    message_stages: int
    write_stages: int


def tiles_for(rows: int, hidden: int, rank: int, few: bool, wide: bool) -> Tiles:
    """few: our own read-out runs, not the vendor's product. wide: float32, twice the bytes and half the depth."""
    at_once = tile(rows, 16, 64)
    depth = (128 if at_once < 64 else 64) // (2 if wide else 1)
    read = tile(rank, 16, 32)
    programs = ceil_div(rows, at_once) * ceil_div(rank, read)
    parts = power_below(min(int(MOST_PARTS), PROGRAMS // programs, ceil_div(hidden, depth))) if few else 1
    message = 16 if rows <= 256 else 32
    return Tiles(
        rows=at_once,
        depth=depth,
        read=read,
        parts=parts,
        message=message,
        write=32 if rows <= 128 else 128,
        read_warps=4,
        message_warps=8 if message == 32 else 4,
        write_warps=4,
        read_stages=4,
        message_stages=5 if at_once == 16 else 4,
        write_stages=5 if at_once < 64 else 4,
    )
