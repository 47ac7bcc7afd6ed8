"""A decode round over 1 to 8 GPUs: bytes, flops and collectives of one rank, and floors from a vendor's rates.

    python -m sglang_dspine.bench.scaling [--context 8192] [--width 16] [--bandwidth TB/s] [--link GB/s]

A floor has no latency in it: a launch and a collective each take longer than their bytes while a batch is small. How
many collectives a round has is therefore told beside it; what one costs is to be measured (tests/gpu/tp2.py).
"""

from __future__ import annotations

from dataclasses import replace

import typer

from ..kernels.shape import SHAPE_27B, Shape
from .budget import H200, Machine
from .collectives import counts, naive_head_bytes, round_collectives
from .rank_round import bridge_choice, memory_gb, round_on

RANKS, BATCHES = (1, 2, 4, 8), (1, 8, 32)
LINK = 450e9  # bytes a second that one H200 sends over NVLink, one way: the vendor's 900 GB/s count both
MODEL = "FP8 layers, BF16 head, bridge, states, KV and activations"


def scaling_table(width: int, context: int, machine: Machine, link: float) -> str:
    lines = [
        "| users | GPUs | GB read, GFLOP a GPU | floor, us | sent a GPU, MB | wire, us | floor and wire, us |"
        " to one GPU | collectives |",
        "|---" * 9 + "|",
    ]
    for batch in BATCHES:
        alone = round_on(batch, width, context, 1).floor(machine)
        for ranks in RANKS:
            r = round_on(batch, width, context, ranks)
            stages, floor, wire = [*r.draft, *r.verify], r.floor(machine), r.sent() / link
            gb, gf = sum(s.bytes for s in stages) / 1e9, sum(s.flops for s in stages) / 1e9
            lines.append(
                f"| {batch} | {ranks} | {gb:.2f}, {gf:,.0f} | {1e6 * floor:,.0f} | {r.sent() / 1e6:,.1f} | "
                f"{1e6 * wire:,.0f} | {1e6 * (floor + wire):,.0f} | {alone / (floor + wire):.2f} | "
                f"{sum(counts(r.collectives).values())} |"
            )
    return "\n".join(lines)


def collective_table(batch: int, width: int) -> str:
    lines = ["| a round | kind | count | bytes of one, at 2 / 4 / 8 GPUs | whose |", "|---" * 5 + "|"]
    found = [round_collectives(batch, width, ranks) for ranks in RANKS[1:]]
    for same in zip(*found, strict=True):
        sizes = [f"{c.bytes:,}" for c in same]
        text = sizes[0] if len(set(sizes)) == 1 else " / ".join(sizes)
        lines.append(
            f"| {same[0].name} | {same[0].kind} | {same[0].count} | {text} | {'ours' if same[0].ours else 'SGLang'} |"
        )
    return "\n".join(lines)


def bridge_table(width: int, machine: Machine, link: float, s: Shape = SHAPE_27B) -> str:
    lines = ["| users | GPUs | spared, us | on the wire, us | left for a collective's latency, us |", "|---" * 5 + "|"]
    for batch in BATCHES:
        for ranks in RANKS[1:]:
            spared, sent = bridge_choice(batch, width, ranks, machine)
            left = (spared - sent / link) / (2 * s.layers)
            lines.append(f"| {batch} | {ranks} | {1e6 * spared:.1f} | {1e6 * sent / link:.1f} | {1e6 * left:.2f} |")
    return "\n".join(lines)


def memory_table() -> str:
    found = [memory_gb(ranks) for ranks in RANKS]
    lines = [
        "| GB a GPU | " + " | ".join(f"{ranks} GPU{'s' * (ranks > 1)}" for ranks in RANKS) + " |",
        "|---" * 5 + "|",
    ]
    lines += [f"| {name} | " + " | ".join(f"{part[name]:.2f}" for part in found) + " |" for name in found[0]]
    return "\n".join([*lines, "| all | " + " | ".join(f"{sum(part.values()):.2f}" for part in found) + " |"])


def main(
    context: int = typer.Option(8192, help="Committed positions a request."),
    width: int = typer.Option(16, help="Verify width."),
    bandwidth: float = typer.Option(H200.bandwidth / 1e12, help="TB/s, e.g. the measured copy rate of bench.stages."),
    link: float = typer.Option(LINK / 1e9, help="GB/s that one GPU sends to the others."),
) -> None:
    """Print the tables of docs/scaling.md."""
    machine = replace(H200, bandwidth=bandwidth * 1e12)
    print(f"Width {width}, context {context:,}; {MODEL}; {machine.name}, NVLink {link:g} GB/s one way.\n")
    print(scaling_table(width, context, machine, link * 1e9), f"\n\nCollectives at 8 users, width {width}.\n", sep="")
    spared = naive_head_bytes(8, width) / 1e6
    print(collective_table(8, width), f"\n\nWhole head rows would be {spared:,.1f} MB a sum.\n", sep="")
    print(
        "The bridge, split.\n",
        bridge_table(width, machine, link * 1e9),
        "\nMemory of the drafter.\n",
        memory_table(),
        sep="\n",
    )


if __name__ == "__main__":
    typer.run(main)
