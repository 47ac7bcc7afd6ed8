"""Bytes and flops of one draft round, stage by stage, and the time no implementation can beat.

    python -m sglang_dspine.bench.budget [--context 8192] [--bandwidth TB/s] [--bf16 TFLOP/s] [--fp8 TFLOP/s]

floor = max(bytes / bandwidth, flops / rate) of each stage. Weights are read once a round; activations are counted where
a stage must read or write them; what a stage could keep on the chip is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import typer

from ..kernels.shape import SHAPE_27B, Shape

BATCHES, WIDTHS = (1, 4, 8, 16, 32), (8, 16)


@dataclass(frozen=True)
class Machine:
    """Rates in bytes and flops a second."""

    name: str
    bandwidth: float
    bf16: float
    fp8: float


# Vendor figures, dense: H200 SXM 4.8 TB/s, 989 and 1,979 TFLOP/s; GB10 273 GB/s, and of its 1 PFLOP/s of sparse FP4 an
# eighth and a quarter. Nothing here was measured on a GB10.
H200 = Machine("H200, nominal", 4.8e12, 989e12, 1979e12)
GB10 = Machine("GB10, projected", 273e9, 125e12, 250e12)


@dataclass(frozen=True)
class Stage:
    """What one stage of one round must move and compute."""

    name: str
    bytes: float
    flops: float
    fp8: bool = False  # its products run at the FP8 rate

    def floor(self, machine: Machine) -> float:
        """Seconds."""
        return max(self.bytes / machine.bandwidth, self.flops / (machine.fp8 if self.fp8 else machine.bf16))


def draft_round(batch: int, width: int, context: int, s: Shape = SHAPE_27B, head_bytes: float = 2.0) -> list[Stage]:
    """Stages of a round of `batch` requests: FP8 layers and `fc`, BF16 bridge, head, activations and draft KV.

    head_bytes: bytes a number of the coarse head (NVFP4: 0.5625).
    """
    rows, proposals = batch * width, batch * (width - 1)
    seen = min(context, s.window)
    q = s.heads * s.head_dim
    activations = 2 * (
        3 * s.hidden + 2 * q + 2 * s.kv + 2 * s.intermediate
    )  # a row's, in and out of one layer's linears
    taps = s.taps * s.hidden
    injected = s.hidden * (taps + s.layers * 2 * s.kv)
    bridge = s.rank * s.hidden + 3 * s.message * s.rank + s.hidden * s.message
    candidates = proposals * s.top_k
    in_table = proposals * (s.message * s.hidden + s.top_k * s.message**2 + s.top_k**2 * s.message + s.top_k * s.hidden)
    return [
        Stage("embed", 4 * rows * s.hidden, 0),
        Stage("layers", s.layers * (s.layer_weights + rows * activations), 2 * s.layers * rows * s.layer_weights, True),
        Stage(
            "window attention",
            s.layers * 4 * batch * (seen + width) * s.kv,
            s.layers * 4 * rows * q * (seen + (width + 1) / 2),
        ),
        Stage("bridge", s.layers * (2 * bridge + 8 * rows * s.hidden), 2 * s.layers * rows * bridge),
        Stage(
            "head",
            head_bytes * s.vocab * s.hidden + 2 * proposals * s.vocab,
            2 * proposals * s.vocab * s.hidden,
            fp8=head_bytes < 2,
        ),
        Stage("top-k", 2 * proposals * s.vocab, 0),
        Stage(
            "table",
            2 * (candidates * (s.hidden + 3 * s.message) + s.hidden * s.message + s.message**2 + rows * s.hidden),
            2 * in_table,
        ),
        Stage("walk", 4 * proposals * s.top_k**2 + 20 * candidates, 0),
        Stage("KV injection", injected + rows * 2 * (taps + s.layers * 2 * s.kv), 2 * rows * injected, True),
        Stage("accept", 4 * rows * s.vocab, 0),
    ]


def floor_of(name: str, batch: int, width: int, context: int, machine: Machine) -> float:
    """Seconds of one stage's floor."""
    return next(stage for stage in draft_round(batch, width, context) if stage.name == name).floor(machine)


def table(width: int, context: int, machines: list[Machine]) -> str:
    """Markdown: for each stage and batch, MB, GFLOP, and each machine's floor in microseconds."""
    head = f"| stage | {' | '.join(f'{n} user' + 's' * (n > 1) for n in BATCHES)} |"
    lines = [head, "|---" * (len(BATCHES) + 1) + "|"]
    rounds = {n: draft_round(n, width, context) for n in BATCHES}
    for index, stage in enumerate(rounds[1]):
        cells = []
        for n in BATCHES:
            s = rounds[n][index]
            floors = " / ".join(f"{1e6 * s.floor(machine):,.1f}" for machine in machines)
            cells.append(f"{s.bytes / 1e6:,.1f} MB, {s.flops / 1e9:,.1f} GF: {floors}")
        lines.append(f"| {stage.name} | {' | '.join(cells)} |")
    totals = [
        " / ".join(f"{1e6 * sum(s.floor(machine) for s in rounds[n]):,.0f}" for machine in machines) for n in BATCHES
    ]
    return "\n".join([*lines, f"| all stages, one after the other | {' | '.join(totals)} |"])


def main(
    context: int = typer.Option(8192, help="Committed positions a request."),
    bandwidth: float = typer.Option(H200.bandwidth / 1e12, help="TB/s, e.g. the measured copy rate of bench.stages."),
    bf16: float = typer.Option(H200.bf16 / 1e12, help="TFLOP/s."),
    fp8: float = typer.Option(H200.fp8 / 1e12, help="TFLOP/s."),
) -> None:
    """Print the budget as Markdown."""
    given = Machine("H200", bandwidth * 1e12, bf16 * 1e12, fp8 * 1e12)
    if (given.bandwidth, given.bf16, given.fp8) == (H200.bandwidth, H200.bf16, H200.fp8):
        given = H200
    for width in WIDTHS:
        print(f"\nWidth {width}, context {context:,}. MB, GFLOP: floor in us on {given.name} / {GB10.name}\n")
        print(table(width, context, [given, GB10]))


if __name__ == "__main__":
    typer.run(main)
