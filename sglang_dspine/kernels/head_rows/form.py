"""How a head is stored, and its rows in plain torch.

| form | weight | scales | scale |
|---|---|---|---|
| dense | [>= V, H] BF16, FP16 or FP32 | none | none |
| FP8 | [>= V, H] e4m3, rows contiguous | [>= V] fp32, one a row | none |
| NVFP4 | [>= V, >= H/2] two e2m1 a byte, even columns in the low half | e4m3, one for 16 columns, swizzled | [1] fp32 |

Swizzled scales lie in tiles of 128 rows by 4 blocks; a tile is 32 lines of 4 rows (32 apart) by 4 blocks. Rows are
padded to 128 and blocks to 4 (sglang layers/quantization/modelopt_quant.py, `ModelOptFp4LinearMethod`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

DENSE, FP8, NVFP4 = 0, 1, 2  # as `read` knows them
GIVEN = 3  # of a table that reads no head: another has read the rows
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True)
class StoredHead:
    """A head in its stored form; no row of it exists in another form unless asked for."""

    weight: torch.Tensor
    hidden: int
    form: int = DENSE
    scales: torch.Tensor | None = None
    scale: torch.Tensor | None = None

    def rows(self, ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Rows of the given tokens, rounded to dtype once. [...] -> [..., H]"""
        if self.form == DENSE:
            return self.weight[ids].to(dtype)
        assert self.scales is not None
        if self.form == FP8:
            # bytes, since not every torch can gather FP8
            values = self.weight.view(torch.uint8)[ids].view(torch.float8_e4m3fn).float()
            return (values * self.scales[ids][..., None]).to(dtype)
        assert self.scale is not None
        packed = self.weight[ids][..., : self.hidden // 2]
        codes = torch.stack([packed & 15, packed >> 4], -1).flatten(-2).long()  # [..., H]
        values = torch.tensor(E2M1, device=ids.device)[codes & 7]
        values = torch.where(codes > 7, -values, values)
        scales = self.scales.view(torch.uint8).flatten()[self._places(ids)].view(torch.float8_e4m3fn).float()
        return (values * scales.repeat_interleave(16, -1) * self.scale).to(dtype)

    def _places(self, ids: torch.Tensor) -> torch.Tensor:
        """Where a row's scales lie. [...] -> [..., H/16]"""
        block = torch.arange(self.hidden // 16, device=ids.device)
        tiles, row = -(-self.hidden // 64), ids[..., None]
        return (((row // 128) * tiles + block // 4) * 32 + row % 32) * 16 + (row % 128) // 32 * 4 + block % 4

    def arguments(self) -> dict[str, Any]:
        """Of a kernel that calls `read_head`; what a form lacks is stood for by the weight."""
        return {
            "head": self.weight,
            "scales": self.weight if self.scales is None else self.scales,
            "scale": self.weight if self.scale is None else self.scale,
            "head_stride": self.weight.stride(0),
        }

    def constants(self) -> dict[str, Any]:
        return {"FORM": self.form}
