"""Register DSPINE with SGLang's algorithm registry."""

from __future__ import annotations

from typing import Any

from ..plugin import ALGORITHM


def register_algorithm() -> None:
    """Idempotent: SGLang may load plugins more than once in a process that forks."""
    from sglang.srt.speculative import spec_registry
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    from ..worker.control import teach_tokenizer
    from .spec import DSpineSpecAlgo
    from .tokenizer_workers import teach_tokenizer_workers

    if spec_registry.get_spec(ALGORITHM) is not None:
        return
    SpeculativeAlgorithm.register(ALGORITHM, supports_overlap=True, spec_class=DSpineSpecAlgo)(worker_class)
    teach_tokenizer_workers()
    teach_tokenizer()


def worker_class(server_args: Any) -> type:
    """Called in the scheduler process only: the heavy imports happen here."""
    from sglang.srt.models.registry import ModelRegistry

    from ..commit.ring import fold_with_own_kernel
    from ..model.dspine import DSpineDraftModel
    from ..worker.control import teach_scheduler
    from ..worker.dspine_worker import DSpineWorker

    teach_scheduler()
    if server_args.enable_linear_replayssm_spec:
        fold_with_own_kernel()
    ModelRegistry.models.setdefault(DSpineDraftModel.__name__, DSpineDraftModel)
    return DSpineWorker
