"""Random heads in stored forms, and their rows by a way of their own: before anything is packed or swizzled."""

from __future__ import annotations

import torch

from sglang_dspine.kernels.head_rows.form import E2M1, FP8, NVFP4, StoredHead


def fp8_head(vocab: int, hidden: int, seed: int = 0) -> tuple[StoredHead, torch.Tensor]:
    """As SGLang stores it, and its rows in fp32 [V, H]."""
    g = torch.Generator().manual_seed(seed)
    values = torch.randn(vocab, hidden, generator=g).to(torch.float8_e4m3fn)
    scales = torch.rand(vocab, generator=g) + 0.5
    return StoredHead(values, hidden, FP8, scales), values.float() * scales[:, None]


def nvfp4_parts(vocab: int, hidden: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, float, torch.Tensor]:
    """Packed [V, H/2], scales [V, H/16] as a checkpoint has them, the global scale, and the rows in fp32 [V, H]."""
    g = torch.Generator().manual_seed(seed)
    codes = torch.randint(16, (vocab, hidden), generator=g)
    scales = (torch.rand(vocab, hidden // 16, generator=g) * 300 + 1).to(torch.float8_e4m3fn)
    sign = torch.where(codes > 7, -1.0, 1.0)
    rows = sign * torch.tensor(E2M1)[codes % 8] * scales.float().repeat_interleave(16, 1) * 0.003
    packed = (codes[:, 0::2] + 16 * codes[:, 1::2]).to(torch.uint8)
    return packed, scales, 0.003, rows


def swizzled(scales: torch.Tensor) -> torch.Tensor:
    """Into tiles of 128 rows by 4 blocks, number by number."""
    rows, blocks = scales.shape
    tiles = -(-blocks // 4)
    out = torch.zeros(-(-rows // 128) * 128 * tiles * 4, dtype=torch.uint8)
    raw = scales.view(torch.uint8)
    for row in range(rows):
        for block in range(blocks):
            tile, line, part = (row // 128) * tiles + block // 4, row % 32, row % 128 // 32
            out[tile * 512 + line * 16 + part * 4 + block % 4] = raw[row, block]
    return out.view(torch.float8_e4m3fn).view(-1, tiles * 4)


def nvfp4_head(vocab: int, hidden: int, seed: int = 0) -> tuple[StoredHead, torch.Tensor]:
    packed, scales, scale, rows = nvfp4_parts(vocab, hidden, seed)
    padded = torch.nn.functional.pad(packed, (0, 16), value=255)  # columns beyond H are never read
    return StoredHead(padded, hidden, NVFP4, swizzled(scales), torch.tensor([scale])), rows
