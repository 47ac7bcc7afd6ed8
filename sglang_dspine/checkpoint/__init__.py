"""Drafter weights from any of the three layouts, refused with one clear error when unfit."""

from .examine import Examination, examine
from .expected import expected_shapes
from .layouts import Layout, detect_layout
from .read import iter_checkpoint, load_checkpoint
from .target import check_against_target, range_warning

__all__ = [
    "Examination",
    "Layout",
    "check_against_target",
    "detect_layout",
    "examine",
    "expected_shapes",
    "iter_checkpoint",
    "load_checkpoint",
    "range_warning",
]
