"""SGLang's flags and environment by compute capability, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..algorithm.backends import draft_attention_backend
from .hardware import Gpu


@dataclass(frozen=True)
class Flag:
    name: str
    value: str | None  # None: a switch
    reason: str

    @property
    def words(self) -> list[str]:
        return [self.name] if self.value is None else [self.name, self.value]


@dataclass(frozen=True)
class Profile:
    name: str
    reason: str
    flags: tuple[Flag, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


CPU_ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "SGLANG_MAMBA_CONV_DTYPE": "float32",
    "OMP_NUM_THREADS": "1",  # small matrices: more threads only wait for each other
    "TOKENIZERS_PARALLELISM": "false",
}
NO_OVERLAP = Flag("--disable-overlap-schedule", None, "no GPU whose work could be overlapped")
CPU_FLAGS = (
    Flag("--device", "cpu", "no GPU"),
    Flag("--dtype", "float32", "speculation and plain decode then agree token by token"),
    Flag("--attention-backend", "intel_amx", "SGLang's CPU attention"),
    Flag("--cuda-graph-backend-decode", "disabled", "no GPU"),
    Flag("--cuda-graph-backend-prefill", "disabled", "no GPU"),
    NO_OVERLAP,
    Flag("--sleep-on-idle", None, "an idle server leaves the cores to others"),
)
CPU_RECURRENT = (Flag("--mamba-ssm-dtype", "float32", "as --dtype"),)
LAZY_CACHE = Flag("--mamba-radix-cache-strategy", "extra_buffer_lazy", "prefix cache beside the overlap schedule")
RECURRENT = (
    Flag("--mamba-ssm-dtype", "bfloat16", "half the recurrent state of float32"),
    Flag("--enable-linear-replayssm-spec", None, "verify keeps rounds, not a state per row"),
    LAZY_CACHE,
)
FP8_DRAFT = Flag("--speculative-draft-model-quantization", "fp8", "half the draft weights to read per round")


def choose_profile(gpu: Gpu | None, recurrent: bool) -> Profile:
    """Flags for a GPU, or for none. recurrent: the target has linear-attention layers with a recurrent state."""
    if gpu is None:
        flags = CPU_FLAGS + CPU_RECURRENT * recurrent
        return Profile("cpu", "nvidia-smi lists no GPU: to try it out, not for speed", flags, CPU_ENVIRONMENT)
    draft = draft_attention_backend(gpu.capability)
    flags = (Flag("--speculative-draft-attention-backend", draft.backend, draft.reason),)
    if gpu.capability == (12, 1):
        flags += (FP8_DRAFT, *RECURRENT * recurrent, *GB10)
        return Profile("gb10", f"{gpu}: memory shared with the host; not run on one so far", flags, GB10_ENVIRONMENT)
    if gpu.capability[0] == 9:
        return Profile("hopper", str(gpu), (*flags, FP8_DRAFT, *RECURRENT * recurrent))
    return Profile("other", f"{gpu}: no profile for it, SGLang's defaults; not run on one so far", flags)


GB10 = (
    Flag("--max-running-requests", "32", "what the memory beside a 27B target holds"),
    Flag("--mem-fraction-static", "0.76", "leaves memory to the host, which shares it"),
)
GB10_ENVIRONMENT = {"MAX_JOBS": "4"}  # kernels compiled at first start: each job takes memory from the host
