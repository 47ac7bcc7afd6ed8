"""SGLang's process-wide state: the environment it reads, one scheduler brought up, everything let go again."""

from __future__ import annotations

import gc
import os
from functools import cache
from glob import glob
from typing import Any

GPU = bool(glob("/dev/nvidia[0-9]*"))
ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "SGLANG_MAMBA_CONV_DTYPE": "float32",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "DSPINE_SELF_CHECK": "0",  # half a second of every engine's start; tests/sglang/test_self_check.py turns it on
}
DEFAULTS = {
    "device": "cpu",
    "dtype": "float32",
    "attention_backend": "intel_amx",
    "max_total_tokens": 4096,
    "max_running_requests": 8,
    "mamba_ssm_dtype": "float32",
    "max_mamba_cache_size": 32,  # a hybrid target would take gigabytes otherwise
    "disable_cuda_graph": True,
    "disable_overlap_schedule": True,
    "log_level": "error",
}


def set_environment() -> None:
    """Before torch and SGLang are imported: both read the environment then."""
    if not GPU:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)


@cache
def import_sglang() -> None:
    from sglang.srt.plugins import load_plugins

    load_plugins()
    import sglang.srt.managers.scheduler
    import sglang.srt.models.registry  # noqa: F401

    _order_penalties()
    _remember_channels()
    # Bringing a scheduler up and down collects garbage, a second each time through a heap of modules: set it aside.
    gc.collect()
    gc.freeze()


def _order_penalties() -> None:
    """SGLang keeps its penalisers in a set of classes, so additive penalties come before or after the repetition factor
    as addresses have it, process by process (under overlap, always before). Before, here: to compare texts."""
    from sglang.srt.sampling.penaltylib.orchestrator import BatchedPenalizerOrchestrator as Orchestrator

    original = Orchestrator.__init__

    def ordered(self, vocab_size, batch, penalizers):
        original(self, vocab_size, batch, sorted(penalizers, key=lambda kind: kind.__name__))

    Orchestrator.__init__ = ordered


CHANNELS: list[Any] = []  # of every scheduler that was begun, those that failed to start among them


def _remember_channels() -> None:
    """SGLang leaves a scheduler's sockets to the garbage collector, for its process ends with it. Here the next one
    starts, and a ZeroMQ context that is collected before its own sockets waits for them for ever."""
    from sglang.srt.managers.scheduler_components.ipc_channels import SchedulerIpcChannels

    create = SchedulerIpcChannels.create

    def remembered(**settings):
        CHANNELS.append(create(**settings))
        return CHANNELS[-1]

    SchedulerIpcChannels.create = remembered


def start_scheduler(settings: dict[str, Any]):
    """SGLang's Scheduler with its workers and pools, as its own process would build it; nobody reads its output."""
    import_sglang()
    from sglang.srt.managers import scheduler as module
    from sglang.srt.server_args import PortArgs, ServerArgs

    server_args = ServerArgs(**settings)
    server_args.resolve_once()
    server_args.check_server_args()
    rank = module.spawn_world_rank(server_args, tp_rank=0, pp_rank=0)
    ranks = module.SpawnRanks(world_rank=rank, dp_rank=None, gpu_id=0)
    module.publish(server_args, role="scheduler", ranks=ranks)
    scheduler = module.Scheduler(server_args, PortArgs.init_new(server_args))
    for name in ("send_to_tokenizer", "send_to_detokenizer"):
        getattr(scheduler.ipc_channels, name).send_output = lambda *args, **kwargs: None
    return scheduler


def release_process_state() -> None:
    """So that another scheduler can start in this process."""
    while CHANNELS:
        CHANNELS.pop().recv_from_tokenizer.context.destroy(linger=0)
    from sglang.srt.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel
    from sglang.srt.runtime_context import reset_context

    destroy_model_parallel()
    destroy_distributed_environment()
    reset_context()
    gc.collect()
