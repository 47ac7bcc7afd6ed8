"""BF16 rows on which a row quantiser can go wrong, and the other rules it might follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from sglang_dspine.checkpoint.fp8 import FP8_MAX, flush

Inverse = Callable[[torch.Tensor], torch.Tensor]
Quantise = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
MANTISSAS = torch.arange(128, 256).float() / 128  # every BF16 number of [1, 2)


def cases(seed: int = 0) -> dict[str, torch.Tensor]:
    """Name to BF16 rows [R, K]; K is a multiple of 8, but for `short`, where the kernel loads four at a time."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random)

    tiny = torch.finfo(torch.bfloat16).tiny  # smallest normal number: 2^-126
    outlier = 0.01 * normal(64, 512)
    outlier[torch.arange(64), torch.randint(512, (64,), generator=random)] = 2.0 ** torch.arange(-30, 34).float()
    zeros = torch.zeros(8, 64)
    zeros[4:] = -0.0
    edge = 2.0 ** torch.linspace(-134, -116, 64)[:, None]  # scales that become subnormal, then zero
    found = {
        "random": 0.02 * normal(256, 1024),
        "short": 0.02 * normal(64, 12),
        "every pair": every_pair(),
        "every exponent": normal(254, 256) * 2.0 ** torch.arange(-126, 128).float()[:, None],
        "subnormal": normal(64, 256) * tiny / 8,
        "subnormal scale": normal(64, 256) * edge,
        "huge": torch.rand(64, 256, generator=random) * 3.38e38 * torch.randint(-1, 2, (64, 256), generator=random),
        "zero": zeros,
        "one outlier": outlier,
    }
    return {name: rows.clamp(-3.38e38, 3.38e38).to(torch.bfloat16) for name, rows in found.items()}


def every_pair() -> torch.Tensor:
    """[128, 5632]: for every mantissa of the row's peak, every BF16 number of 22 binades below it, both signs.

    Scaling a row by a power of two scales scale and values alike while nothing is subnormal, so these are all the
    rows there are: every half-way case occurs.
    """
    below = (MANTISSAS[None] * 2.0 ** -torch.arange(22).float()[:, None]).flatten()  # [2816]
    values = torch.cat([below, -below]).expand(128, -1).clone()
    values[values.abs() > MANTISSAS[:, None]] = 0.0  # nothing may exceed the peak
    return values


def rules(approximate: Inverse | None) -> Iterator[tuple[str, Quantise]]:
    """Other row quantisers, by name: what a kernel that is not ours may do. `approximate` is the GPU's reciprocal."""
    third = torch.tensor(1 / FP8_MAX, dtype=torch.float32)
    scales: dict[str, Inverse] = {
        "max/448": lambda peak: peak / FP8_MAX,
        "max*(1/448)": lambda peak: peak * third,
        "max(1e-10)/448": lambda peak: peak.clamp(min=1e-10) / FP8_MAX,
    }
    values: dict[str, Callable[..., torch.Tensor]] = {
        "w*(1/s)": lambda w, s, peak: w * (1 / s),
        "w/s": lambda w, s, peak: w / s,
        "w*(448/max)": lambda w, s, peak: w * (FP8_MAX / peak),
    }
    if approximate is not None:
        values["w*rcp.approx(s)"] = lambda w, s, peak: w * approximate(s)
    for scale_name, scale_of in scales.items():
        for value_name, value_of in values.items():
            for flushed in (False, True):
                for empty in ("0", "448"):
                    name = f"s={scale_name} q={value_name}{' flushed' if flushed else ''} zero->{empty}"
                    yield name, _rule(scale_of, value_of, flushed, empty == "0")


def _rule(scale_of: Inverse, value_of: Callable[..., torch.Tensor], flushed: bool, look: bool) -> Quantise:
    def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        w = flush(weight.float()) if flushed else weight.float()
        peak = w.abs().amax(1, keepdim=True)
        scale = flush(scale_of(peak)) if flushed else scale_of(peak)
        x = value_of(w, scale, peak)
        if look:
            x = torch.where(scale == 0, w * 0.0, x)
        return x.nan_to_num(nan=FP8_MAX).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn), scale

    return quantise
