"""Window attention of one draft layer: SGLang's backends on this GPU, beside the bytes of keys and values they read.

    python -m sglang_dspine.bench.attention OUT [--batches 1,8,32] [--widths 8,16] [--contexts 8192,32768]

Heads and window of the 27B drafter, random numbers, pages of one token scattered over the pool as a server's are. Each
arm is first compared with float64 on a small case; then all are timed in turns (A B B A) as CUDA graphs over five
layers' caches. A context longer than the window must cost what the window costs: more would be keys read for nothing.
Prints a table, writes OUT/attention.csv. Exit status 1 if an arm that ran is wrong.

FP8 arms store keys and values in e4m3; FA3 then wants queries in e4m3 too, Triton converts what it loads.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import typer

from ..kernels.shape import SHAPE_27B as S
from .gpu_clock import measured_machine, timed

LAYERS = 5
Call = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Row:
    arm: str
    batch: int
    width: int
    context: int
    us: float
    us_min: float
    us_max: float
    floor_us: float
    ratio: float


class Layer:
    """N requests of `context` committed positions, w new rows behind them, and one layer's cache."""

    def __init__(
        self, n: int, width: int, context: int, dtype: torch.dtype, window: int = S.window, device: str = "cuda"
    ) -> None:
        self.n, self.width, self.context, self.window = n, width, context, window
        total = context + width
        slots = torch.randperm(n * total, device=device)
        self.table = slots.view(n, total).to(torch.int32)  # [N, context + w] slot of each position
        shape = (n * total, S.kv_heads, S.head_dim)
        self.keys, self.values = (torch.randn(shape, device=device, dtype=torch.bfloat16).to(dtype) for _ in range(2))
        self.queries = torch.randn(n * width, S.heads, S.head_dim, device=device, dtype=torch.bfloat16)
        self.lengths = torch.full((n,), total, dtype=torch.int32, device=device)
        self.query_starts = torch.arange(n + 1, dtype=torch.int32, device=device) * width

    @property
    def read(self) -> int:
        """Bytes of keys and values that the window holds for the first row, and those of the new rows."""
        positions = min(self.context, self.window - 1) + self.width
        return 2 * self.n * positions * S.kv * self.keys.element_size()

    def exact(self) -> torch.Tensor:
        """[N*w, heads, dim] in float64; row i sees itself and the window - 1 positions before it."""
        found = []
        at = torch.arange(self.context + self.width, device=self.table.device)
        for i in range(self.n):
            k, v = (cache[self.table[i].long()].double() for cache in (self.keys, self.values))
            k, v = (x.repeat_interleave(S.heads // S.kv_heads, 1) for x in (k, v))
            q = self.queries[i * self.width : (i + 1) * self.width].double()
            scores = torch.einsum("qhd,khd->hqk", q, k) * S.head_dim**-0.5
            row = self.context + torch.arange(self.width, device=self.table.device)
            seen = (at[None] <= row[:, None]) & (at[None] > row[:, None] - self.window)
            weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
            found.append(torch.einsum("hqk,khd->qhd", weights, v))
        return torch.cat(found)


def flash(layer: Layer, version: int) -> Call:
    """FlashAttention over the paged cache, as SGLang's backend calls it."""
    from sglang.kernels.ops.attention.flash_attention import flash_attn_with_kvcache

    one = torch.ones(layer.n, S.kv_heads, dtype=torch.float32, device="cuda")
    fp8 = layer.keys.dtype == torch.float8_e4m3fn
    queries = layer.queries.to(layer.keys.dtype) if fp8 else layer.queries
    scales = {"q_descale": one, "k_descale": one, "v_descale": one} if fp8 else {}

    def call() -> torch.Tensor:
        result: torch.Tensor = flash_attn_with_kvcache(
            q=queries, k_cache=layer.keys[:, None], v_cache=layer.values[:, None], page_table=layer.table,
            cache_seqlens=layer.lengths, cu_seqlens_q=layer.query_starts, max_seqlen_q=layer.width,
            softmax_scale=S.head_dim**-0.5, causal=True, window_size=(layer.window - 1, 0), ver=version, **scales,
        )  # fmt: skip
        return result

    return call


def triton_extend(layer: Layer) -> Call:
    """SGLang's Triton kernel: indices of the window's positions only, and the new rows' own keys beside them."""
    from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

    kept = min(layer.context, layer.window)  # as SGLang clips the prefix of a sliding-window layer
    old = layer.table[:, layer.context - kept : layer.context].reshape(-1).to(torch.int64)
    new = layer.table[:, layer.context :].reshape(-1).long()
    starts = torch.arange(layer.n + 1, dtype=torch.int32, device="cuda") * kept
    offsets = torch.full((layer.n,), layer.context - kept, dtype=torch.int32, device="cuda")
    keys, values = (cache[new].to(torch.bfloat16) for cache in (layer.keys, layer.values))
    out = torch.empty_like(layer.queries)

    def call() -> torch.Tensor:
        extend_attention_fwd(
            layer.queries, keys, values, out, layer.keys, layer.values, layer.query_starts, starts, old,
            None, True, None, layer.width, 1.0, 1.0, sm_scale=S.head_dim**-0.5,
            sliding_window_size=layer.window - 1, window_kv_offsets=offsets,
        )  # fmt: skip
        return out

    return call


ARMS: dict[str, tuple[torch.dtype, Callable[[Layer], Call]]] = {
    "fa3 BF16": (torch.bfloat16, lambda layer: flash(layer, 3)),
    "fa4 BF16": (torch.bfloat16, lambda layer: flash(layer, 4)),
    "triton BF16": (torch.bfloat16, triton_extend),
    "fa3 FP8": (torch.float8_e4m3fn, lambda layer: flash(layer, 3)),
    "triton FP8": (torch.float8_e4m3fn, triton_extend),
}
ALLOWED = {torch.bfloat16: 0.01, torch.float8_e4m3fn: 0.08}  # FA3 rounds queries and weights to e4m3 as well


def check() -> tuple[list[str], bool]:
    """Arms that run here, and whether all of those are right. A window of 256 cuts a context of 700."""
    running, right = [], True
    for name, (dtype, make) in ARMS.items():
        torch.manual_seed(0)
        layer = Layer(3, 8, 700, dtype, window=256)
        try:
            found = make(layer)().view(-1, S.heads, S.head_dim).double()
        except Exception as problem:  # a backend that this GPU or installation lacks costs no other its figures
            print(f"{name}: does not run here: {type(problem).__name__}: {str(problem)[:200]}", flush=True)
            continue
        exact = layer.exact()
        error = float((found - exact).norm() / exact.norm())
        holds = error <= ALLOWED[dtype]
        print(f"{'ok' if holds else 'WRONG'} {name}: {error:.2e} from float64", flush=True)
        right &= holds
        running.append(name)
    return running, right


def cell(names: list[str], n: int, width: int, context: int, bandwidth: float) -> list[Row]:
    layers = {dtype: [Layer(n, width, context, dtype) for _ in range(LAYERS)] for dtype in ALLOWED}
    arms = {name: [ARMS[name][1](layer) for layer in layers[ARMS[name][0]]] for name in names}
    rows = []
    for name, time in timed(arms).items():
        floor = 1e6 * layers[ARMS[name][0]][0].read / bandwidth
        rows.append(Row(name, n, width, context, time.median, time.least, time.most, floor, time.median / floor))
    return rows


def main(
    out: Path,
    batches: str = typer.Option("1,8,32", help="Users."),
    widths: str = typer.Option("8,16", help="Rows a block."),
    contexts: str = typer.Option("8192,32768", help="Committed positions; the window is 8,192."),
) -> None:
    """Check, then time."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with torch.inference_mode():
        machine = measured_machine()
        print(f"{machine.name}: reads at {machine.bandwidth / 1e12:.2f} TB/s", flush=True)
        names, right = check()
        for n, width, context in (
            (int(n), int(w), int(c)) for n in batches.split(",") for w in widths.split(",") for c in contexts.split(",")
        ):
            if n * context > 32 * 16384:
                continue  # the pool of five layers would not fit beside itself in both precisions
            for row in cell(names, n, width, context, machine.bandwidth):
                rows.append(row)
                print(
                    f"{row.arm:>12} {n:3d} x {width:2d} behind {context:6d}: {row.us:8.1f} us [{row.us_min:.1f} … "
                    f"{row.us_max:.1f}]  floor {row.floor_us:7.1f}  ratio {row.ratio:5.2f}",
                    flush=True,
                )
            torch.cuda.empty_cache()
    with (out / "attention.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(Row.__dataclass_fields__))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    raise typer.Exit(0 if right else 1)


if __name__ == "__main__":
    typer.run(main)
