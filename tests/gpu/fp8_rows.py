"""SGLang's row quantisation kernel against our plain form, bit for bit, on a CUDA GPU.

    python -m tests.gpu.fp8_rows OUT

Prints one line a case: how many e4m3 bytes and scales differ, and, where any do, the rule that matches. Measures the
GPU's approximate reciprocal too, whose table `sglang_dspine/checkpoint/hopper.py` holds. Writes vectors for the CPU
tests: OUT/rows.safetensors, which goes to tests/data/fp8/<gpu>.safetensors. Exit status 0 only if nothing differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file

from sglang_dspine.checkpoint import fp8, load_checkpoint
from sglang_dspine.checkpoint.expected import is_fp8_linear
from tests.support.fp8_rows import MANTISSAS, Quantise, cases, rules

ROOT = Path(__file__).resolve().parents[2]
PINNED_ROWS, PINNED_COLUMNS = 16, 128  # of each case, so that all vectors stay below 200 kB


class Finding(NamedTuple):
    case: str
    variant: str  # which of the kernel's two forms ran
    rows: int
    values_off: int
    scales_off: int
    rule: str  # the matching rule where ours differs
    example: str


def differing(a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]) -> tuple[int, int]:
    """Bytes of values and scales that are not the same bits."""
    values = a[0].view(torch.uint8) != b[0].view(torch.uint8)
    scales = a[1].view(torch.int32) != b[1].view(torch.int32)
    return int(values.sum()), int(scales.sum())


def compare(case: str, few: bool, rows: torch.Tensor, kernel: Quantise, ours: Quantise, inverse) -> Finding:
    """One case through kernel and plain form; where they differ, every other rule is tried on the rows that do."""
    theirs, mine = kernel(rows), ours(rows)
    off = differing(theirs, mine)
    rule, example = "", ""
    if any(off):
        wrong = (theirs[0].view(torch.uint8) != mine[0].view(torch.uint8)).any(1) | (theirs[1] != mine[1])[:, 0]
        bad = wrong.nonzero()[:64, 0]
        few_theirs = (theirs[0][bad], theirs[1][bad])
        scored = [(differing(few_theirs, quantise(rows[bad])), name) for name, quantise in rules(inverse)]
        _, name = min(scored, key=lambda entry: sum(entry[0]))
        everywhere = differing(theirs, dict(rules(inverse))[name](rows))
        fits = not any(everywhere)
        rule = f"matches: {name}" if fits else f"nearest: {name}, {everywhere[0]} values and {everywhere[1]} scales off"
        example = _first_difference(rows, theirs, mine)
    return Finding(case, "few rows" if few else "many rows", len(rows), *off, rule, example)


def _first_difference(rows, theirs, mine) -> str:
    wrong = (theirs[0].view(torch.uint8) != mine[0].view(torch.uint8)) | (theirs[1] != mine[1])
    i, j = wrong.nonzero()[0].tolist()
    peak = rows[i].float().abs().max().item()
    return (
        f"row {i} column {j}: w {rows[i, j].item()!r} peak {peak!r}; kernel {theirs[0][i, j].item()!r} scale "
        f"{theirs[1][i].item()!r}; ours {mine[0][i, j].item()!r} scale {mine[1][i].item()!r}"
    )


def padded(rows: torch.Tensor, count: int) -> torch.Tensor:
    """The rows over and over, at least `count` of them."""
    return rows.repeat(-(-count // len(rows)), 1)


def approximate_reciprocal(x: torch.Tensor) -> torch.Tensor:
    """The GPU's own rcp.approx.ftz.f32 of each element; x float32 on the CPU, any shape."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + at, mask=at < n, other=1.0)
        asm: tl.constexpr = "rcp.approx.ftz.f32 $0, $1;"
        result = tl.inline_asm_elementwise(asm, "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1)
        tl.store(y_ptr + at, result, mask=at < n)

    given = x.reshape(-1).contiguous().cuda()
    found = torch.empty_like(given)
    kernel[(triton.cdiv(given.numel(), 128),)](given, found, given.numel(), BLOCK=128)
    return found.cpu().view(x.shape)


def reciprocal_table(kernel: Quantise, inverse: Callable[[torch.Tensor], torch.Tensor]) -> tuple[tuple[int, ...], bool]:
    """Deviation of 1 / scale from the rounded quotient, by the peak's mantissa, and whether all exponents agree."""
    tables = []
    for exponent in range(-100, 120, 10):
        _, scale = kernel((MANTISSAS * 2.0**exponent).to(torch.bfloat16)[:, None].expand(-1, 8).contiguous())
        tables.append((inverse(scale).view(torch.int32) - (1 / scale).view(torch.int32))[:, 0])
    return tuple(tables[0].tolist()), all(torch.equal(tables[0], table) for table in tables)


def inputs(many: int) -> Iterator[tuple[str, bool, torch.Tensor]]:
    """(case, few rows?, rows): synthetic rows in both variants, the demo drafter's own weights, one full-size layer."""
    for case, rows in cases().items():
        yield case, True, rows
        yield case, False, padded(rows, many)
    _, weights = load_checkpoint(ROOT / "demo" / "draft")
    for name in filter(is_fp8_linear, sorted(weights)):
        yield f"demo {name}", True, weights[name].to(torch.bfloat16)
    random = torch.Generator().manual_seed(1)
    yield "5120 x 5120", False, (0.02 * torch.randn(5120, 5120, generator=random)).to(torch.bfloat16)


def vectors(kernel: Quantise, many: int) -> dict[str, torch.Tensor]:
    """A few rows and columns of each case as the kernel quantises them; each row keeps its peak."""
    saved: dict[str, torch.Tensor] = {}
    for case, rows in cases().items():
        part = half_way(rows, 64) if case == "every pair" else _cut(rows)
        for variant, given in (("few", part), ("many", padded(part, many))):
            values, scale = kernel(given)
            saved[f"{case}.{variant}.values"] = values[: len(part)].view(torch.uint8)
            saved[f"{case}.{variant}.scale"] = scale[: len(part)]
        saved[f"{case}.weight"] = part
    return {name: tensor.contiguous() for name, tensor in saved.items()}


def half_way(rows: torch.Tensor, columns: int) -> torch.Tensor:
    """Of each row its peak and the elements nearest to the middle between two e4m3 values: [R, columns]."""
    peak = rows.float().abs().amax(1, keepdim=True)
    x = rows.float() * (fp8.FP8_MAX / peak)
    close = (x * (1 + 2e-6)).to(torch.float8_e4m3fn).float() != (x * (1 - 2e-6)).to(torch.float8_e4m3fn).float()
    wanted = close.float() + 2 * (rows.float().abs() == peak)
    order = wanted.sort(dim=1, descending=True, stable=True).indices
    return rows.gather(1, order[:, :columns]).contiguous()


def _cut(rows: torch.Tensor) -> torch.Tensor:
    some = rows[:: max(1, len(rows) // PINNED_ROWS)]
    peak = some.gather(1, some.float().abs().argmax(1, keepdim=True))
    step = max(1, some.shape[1] // PINNED_COLUMNS)
    part = some[:, ::step][:, :PINNED_COLUMNS].clone()
    part[:, :1] = peak
    return part.contiguous()


def real_kernel(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `Fp8LinearMethod.process_weights_after_loading` calls it; CPU in, CPU out."""
    from sglang.kernels.ops.quantization.fp8_kernel import per_token_group_quant_fp8

    values, scale = per_token_group_quant_fp8(weight.cuda(), weight.shape[-1])
    return values.cpu(), scale.cpu()


def line(f: Finding, explain: bool) -> str:
    verdict = "equal" if not f.values_off and not f.scales_off else f"DIFFERS  {f.rule}"
    text = (
        f"{f.case:40s} {f.variant:9s} rows {f.rows:5d}  values {f.values_off:6d}  scales {f.scales_off:4d}  {verdict}"
    )
    return f"{text}\n    {f.example}" if explain and f.example else text


def measured_table(saved: dict[str, torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Measure the reciprocal, tell whether the shipped table is right, and use the measured one from here on."""
    try:
        table, same = reciprocal_table(real_kernel, approximate_reciprocal)
    except Exception as error:
        print(f"rcp.approx could not be measured: {error!r}", flush=True)
        return None
    saved["reciprocal_ulps"] = torch.tensor(table, dtype=torch.int8)
    print(f"RECIPROCAL_ULPS = {table}  # the same at every exponent: {same}", flush=True)
    print(f"shipped table {'equals' if table == fp8.RECIPROCAL_ULPS else 'DIFFERS FROM'} the measured one", flush=True)
    fp8.RECIPROCAL_ULPS = table
    return approximate_reciprocal


def main() -> int:
    out, begin = Path(sys.argv[1]), time.time()
    out.mkdir(parents=True, exist_ok=True)
    capability, name = torch.cuda.get_device_capability(), torch.cuda.get_device_name()
    rounding = fp8.rounding_of(capability)
    many = 16 * torch.cuda.get_device_properties(0).multi_processor_count
    print(f"{name} sm_{capability[0]}{capability[1]}, rounding {rounding}, many = {many} rows", flush=True)
    # first of all what only this machine can tell: it must survive whatever goes wrong later
    saved = vectors(real_kernel, many)
    print(f"kernel compiled and vectors made after {time.time() - begin:.0f} s", flush=True)
    inverse = measured_table(saved)
    meta = {"gpu": name, "capability": f"{capability[0]}.{capability[1]}", "rounding": str(rounding)}
    save_file(saved, out / "rows.safetensors", metadata=meta | {"torch": torch.__version__})
    print(f"rows.safetensors: {(out / 'rows.safetensors').stat().st_size} bytes", flush=True)
    findings: list[Finding] = []
    for case, few, rows in inputs(many):
        ours = lambda w, few=few: fp8.quantise_rows(w, rounding, few_rows=few)  # noqa: E731
        findings.append(compare(case, few, rows, real_kernel, ours, inverse))
        wrong = [f for f in findings if f.values_off or f.scales_off]
        print(line(findings[-1], len(wrong) <= 8), flush=True)
    print(f"{len(findings) - len(wrong)} of {len(findings)} cases equal, {time.time() - begin:.0f} s")
    (out / "fp8_rows.txt").write_text("\n".join(line(f, True) for f in findings) + "\n")
    if "reciprocal_ulps" in saved:
        print(f"RECIPROCAL_ULPS = {tuple(saved['reciprocal_ulps'].tolist())}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
