"""One kernel launch as data: it can be run, or compiled for a GPU that is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

PROGRAMS = 264  # two for each of an H200's 132 processors
POINTERS = {
    torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.int64: "*i64", torch.int32: "*i32",
    torch.uint8: "*u8", torch.int8: "*i8", torch.bool: "*i1", torch.float8_e4m3fn: "*fp8e4nv",
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """A Triton kernel with everything it is called with; tensors on `meta` suffice for `compile`."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]  # tensors, ints and floats
    constants: dict[str, Any]
    warps: int
    stages: int

    @property
    def name(self) -> str:
        return str(self.kernel.__name__)

    @property
    def options(self) -> dict[str, Any]:
        """How Triton compiles it. `launch_pdl`: it may start before the launch before it ends (`dependent.py`)."""
        options: dict[str, Any] = {"num_warps": self.warps, "num_stages": self.stages}
        if self.constants.get("DEPENDENT", False):
            options["launch_pdl"] = True
        return options

    def run(self) -> None:
        self.kernel[self.grid](**self.arguments, **self.constants, **self.options)

    def compile(self, capability: int) -> Any:
        """Compile for `capability` (90: Hopper, 121: GB10) as a call would, without a GPU.

        Returns Triton's CompiledKernel: `asm["cubin"]`, `metadata.shared`.
        """
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        signature, aligned = {}, {}
        for index, name in enumerate(self.kernel.arg_names):
            value = self.arguments.get(name)
            if isinstance(value, torch.Tensor):
                signature[name] = POINTERS[value.dtype]
            elif isinstance(value, float):
                signature[name] = "fp32"
            elif value is not None:
                signature[name] = "i32"
            else:
                signature[name] = "constexpr"
            varies = self.kernel.params[index].do_not_specialize
            if isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0 and not varies):
                aligned[(index,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.kernel, signature, self.constants, aligned)
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=self.options)


@dataclass(frozen=True)
class Product:
    """A product that the vendor's library multiplies: out = a b^T. [T, n], [m, n] -> [T, m]"""

    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor

    def run(self) -> None:
        torch.mm(self.a, self.b.T, out=self.out)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power_below(n: int) -> int:
    """Largest power of two that is at most n, at least 1: a batch's sizes then need few variants of a kernel."""
    return 1 << (max(1, n).bit_length() - 1)


def power_of_2(n: int) -> int:
    """Smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


def tile(n: int, smallest: int, largest: int) -> int:
    """Power of two that covers n, within limits."""
    return min(max(power_of_2(n), smallest), largest)
