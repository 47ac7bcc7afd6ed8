"""What makes a checkpoint unfit to serve: by its headers, and by its values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import DraftConfig
from ..errors import CheckpointError
from ..headers import Stored
from .expected import stored_tensors
from .files import CODES
from .layouts import SCALE_SUFFIX, Layout

if TYPE_CHECKING:
    import torch

# Rounding a unit row to BF16 moves its length by less than 2^-8; to float32, by nothing that shows.
UNIT_TOLERANCE = {"torch.float32": 1e-3, "torch.bfloat16": 1e-2, "torch.float16": 1e-2}
_ROWS = 1 << 16  # code rows looked at together: 128 MB of float32 at rank 512


def is_ignored(name: str) -> bool:
    """Tensors that only repeat the config: old exports stored RoPE's frequencies."""
    return name.endswith("rotary_emb.inv_freq")


def check_headers(
    folder: Path, config: DraftConfig, layout: Layout, tensors: Mapping[str, Stored]
) -> list[CheckpointError]:
    """Missing and surplus tensors, wrong shapes and dtypes."""
    table = stored_tensors(config, layout)
    problems = []
    for name in sorted(set(table) - set(tensors)):
        shape, dtypes = table[name]
        problems.append(
            CheckpointError(
                str(folder), f"tensor {name} is missing", expected=_describe(shape, dtypes), found="nothing"
            )
        )
    for name, stored in sorted(tensors.items()):
        if name not in table:
            if not is_ignored(name):
                problems.append(_surplus(name, stored))
            continue
        shape, dtypes = table[name]
        if stored.shape != shape:
            problems.append(_wrong_shape(name, stored, shape, config))
        if stored.dtype not in dtypes:
            problems.append(
                CheckpointError(
                    str(stored.file),
                    f"tensor {stored.name} has the wrong dtype",
                    expected=" or ".join(dtypes),
                    found=stored.dtype,
                )
            )
    return problems


def _describe(shape: tuple[int, ...], dtypes: tuple[str, ...]) -> str:
    return f"{list(shape)} {' or '.join(dtypes)}"


def _surplus(name: str, stored: Stored) -> CheckpointError:
    hint = "this drafter would not use it, so the checkpoint is of another kind or damaged"
    if name in ("embed_tokens.weight", "lm_head.weight"):
        hint = "a DSpine drafter uses the target's embedding and head"
    return CheckpointError(
        str(stored.file),
        f"tensor {stored.name} is surplus",
        expected="no such tensor",
        found=f"{list(stored.shape)} {stored.dtype}",
        hint=hint,
    )


def _wrong_shape(name: str, stored: Stored, shape: tuple[int, ...], config: DraftConfig) -> CheckpointError:
    hint = ""
    if name == CODES and len(stored.shape) == 2 and stored.shape[0] != config.vocab_size:
        hint = f"these are codes of a vocabulary of {stored.shape[0]}, config.json says {config.vocab_size}"
    if name == "fc.weight":
        hint = f"config.json names {len(config.target_layer_ids)} taps of width {config.hidden_size}"
    return CheckpointError(
        str(stored.file),
        f"tensor {stored.name} has the wrong shape",
        expected=list(shape),
        found=list(stored.shape),
        hint=hint,
    )


def check_values(name: str, stored: Stored, tensor: torch.Tensor) -> list[CheckpointError]:
    """NaN and infinities, codes that are no unit rows, an untrained transfer space, negative scales."""
    where = str(stored.file)
    if name == "transfer_ready":
        if bool(tensor.all()):
            return []
        return [
            CheckpointError(
                where,
                "tensor transfer_ready is false",
                expected="true",
                found="false",
                hint="the transfer space was never initialised: this is no trained drafter",
            )
        ]
    wrong = _not_finite(tensor)
    if wrong:
        return [CheckpointError(where, f"tensor {stored.name} is not finite", expected="finite values", found=wrong)]
    if name.endswith(SCALE_SUFFIX) and bool((tensor < 0).any()):
        return [
            CheckpointError(
                where,
                f"tensor {stored.name} has negative scales",
                expected="scales >= 0",
                found=f"{tensor.min().item():g}",
            )
        ]
    if name == CODES and tensor.dim() == 2 and str(tensor.dtype) in UNIT_TOLERANCE:
        return _check_unit_rows(where, stored, tensor)
    return []


def _not_finite(tensor: torch.Tensor) -> str:
    """A count of NaN and infinite elements with the first one's place, or an empty string."""
    if _all_finite(tensor):
        return ""
    bad = ~tensor.float().isfinite()
    first = bad.nonzero()[0].tolist()
    return f"{int(bad.sum())} of {tensor.numel()} NaN or infinite, the first at {first}"


def _all_finite(tensor: torch.Tensor) -> bool:
    """One pass without a temporary of the tensor's size: every start reads every weight."""
    import torch

    if tensor.numel() == 0 or tensor.dtype == torch.bool:
        return True
    if tensor.dtype == torch.float8_e4m3fn:  # no infinities; NaN is all ones but the sign
        return int((tensor.view(torch.uint8) & 0x7F).max()) < 0x7F
    low, high = tensor.aminmax()  # NaN if any element is
    return bool(low.isfinite()) and bool(high.isfinite())


def _check_unit_rows(where: str, stored: Stored, codes: torch.Tensor) -> list[CheckpointError]:
    """codes [V, r]: each row has length 1, because the bridge multiplies it by sqrt(r) to match a feature."""
    tolerance = UNIT_TOLERANCE[str(codes.dtype)]
    off, worst, row = 0, 0.0, 0
    for start in range(0, codes.shape[0], _ROWS):
        error = (_lengths(codes[start : start + _ROWS]) - 1).abs()
        off += int((error > tolerance).sum())
        if error.max().item() > worst:
            worst, row = error.max().item(), start + int(error.argmax())
    if not off:
        return []
    length = _lengths(codes[row]).item()
    return [
        CheckpointError(
            where,
            f"tensor {stored.name} has rows that are not of unit length",
            expected=f"length 1 within {tolerance:g}",
            found=f"{off} of {codes.shape[0]} rows off, the worst, {row}, of length {length:g}",
        )
    ]


def _lengths(rows: torch.Tensor) -> torch.Tensor:
    """Lengths over the last dimension, accumulated in float32."""
    import torch

    return torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float32)
