"""Real SGLang in one process: scheduler, target and draft workers, pools and radix cache, one step at a time.

The engine runs SGLang's own event loop, with or without overlap, on a thread that stops before every
iteration until `step()` lets it through; so nothing of the loop is rewritten here, and its idle-time leak
checks run too. Several engines may live in a process one after another, not side by side.
"""

from __future__ import annotations

import array
import gc
import os
import threading
from dataclasses import dataclass, field
from typing import Any

ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
    "SGLANG_MAMBA_CONV_DTYPE": "float32", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip
DEFAULTS = {
    "device": "cpu", "dtype": "float32", "max_total_tokens": 4096, "max_running_requests": 8,
    "disable_cuda_graph": True, "disable_overlap_schedule": True, "attention_backend": "intel_amx",
    "mamba_ssm_dtype": "float32", "max_mamba_cache_size": 32, "log_level": "warning",
}  # fmt: skip
os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})


@dataclass
class Request:
    """One prompt."""

    ids: list[int]
    sampling: dict[str, Any] = field(default_factory=dict)  # SGLang's sampling parameters
    logprobs: int | None = None  # how many top log-probabilities of each output token; None: none at all
    prompt_logprobs_from: int = -1  # first prompt position that gets log-probabilities; -1: none
    rid: str | None = None
    cache_salt: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # further fields of TokenizedGenerateReqInput


@dataclass
class Round:
    """What one step of the engine did for one request."""

    mode: str  # "extend" or "decode"
    accepted: int | None  # accepted length, bonus included, as the worker reported it; None without drafting
    tokens: list[int]  # tokens that the step added to the request's output
    batch: int  # requests in the step's batch


@dataclass
class Output:
    """A request's life so far. Fields are read from SGLang's own request object."""

    rid: str
    rounds: list[Round] = field(default_factory=list)
    req: Any = None

    @property
    def output_ids(self) -> list[int]:
        """What a client receives: the last round may have accepted tokens beyond the stop."""
        return list(self.req.output_ids_through_stop)

    @property
    def finished(self) -> bool:
        return self.req.finished()

    @property
    def finish_reason(self) -> dict | None:
        return self.req.finished_reason.to_json() if self.req.finished_reason else None

    @property
    def cached_tokens(self) -> int:
        return self.req.cached_tokens

    @property
    def accept_lengths(self) -> list[int]:
        """Accepted length, bonus included, of each verify round in order."""
        return [r.accepted for r in self.rounds if r.accepted is not None]

    @property
    def logprobs(self) -> list[float]:
        """Log-probability of each output token."""
        return list(self.req.logprob.output_token_logprobs_val)

    @property
    def top_logprobs(self) -> list[dict[int, float]]:
        """For each output token, the requested number of best ids with their log-probabilities."""
        found = self.req.logprob
        pairs = zip(found.output_top_logprobs_idx, found.output_top_logprobs_val, strict=True)
        return [dict(zip(ids, values, strict=True)) for ids, values in pairs]


class InProcessEngine:
    """SGLang with `server_args` (names of ServerArgs fields) over the tests' defaults."""

    def __init__(self, model_path: str, **server_args):
        self.outputs: dict[str, Output] = {}
        self._inbox: list[Any] = []
        self._go, self._parked = threading.Semaphore(0), threading.Semaphore(0)
        self._closing, self._error, self._count = False, None, 0
        self.scheduler: Any = None
        settings = {**DEFAULTS, "model_path": model_path, **server_args}
        self._thread = threading.Thread(target=self._run, args=(settings,), name="engine", daemon=True)
        self._thread.start()
        self._wait()

    def __enter__(self) -> InProcessEngine:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    # ---- requests

    def generate(self, requests: list[Request], limit: int = 2000) -> list[Output]:
        """Run the requests as one batch until all are finished, then on until the engine is idle."""
        outputs = [self.add_request(request) for request in requests]
        self.run_until(lambda: all(out.req is not None and out.finished for out in outputs), limit)
        self.settle(limit)
        return outputs

    def add_request(self, request: Request) -> Output:
        """Queue a request; the next step lets the scheduler see it."""
        from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
        from sglang.srt.sampling.sampling_params import SamplingParams

        self._count += 1
        sampling = SamplingParams(**{"temperature": 0, "max_new_tokens": 16, **request.sampling})
        sampling.normalize(self.scheduler.tokenizer)
        sampling.verify(self.scheduler.model_config.vocab_size)
        out = Output(request.rid or f"request-{self._count}")
        self.outputs[out.rid] = out
        self._inbox.append(
            TokenizedGenerateReqInput(
                rid=out.rid, input_text="", input_ids=array.array("q", request.ids), input_embeds=None,
                mm_inputs=None, token_type_ids=None, sampling_params=sampling,
                return_logprob=request.logprobs is not None, logprob_start_len=request.prompt_logprobs_from,
                top_logprobs_num=request.logprobs or 0, token_ids_logprob=None, stream=False,
                cache_salt=request.cache_salt, **request.extra,
            )
        )  # fmt: skip
        return out

    def abort(self, rid: str) -> None:
        from sglang.srt.managers.io_struct import AbortReq

        self._inbox.append(AbortReq(rid=rid))

    def flush(self) -> None:
        """Drop the prefix cache; the engine must be idle."""
        self.settle()
        if not self.scheduler.flush_cache():
            raise AssertionError("the engine is busy: its cache was not flushed")

    # ---- stepping

    def step(self) -> None:
        """One iteration of SGLang's event loop."""
        self._go.release()
        self._wait()

    def run_until(self, condition, limit: int = 2000) -> None:
        for _ in range(limit):
            if condition():
                return
            self.step()
        raise AssertionError(f"not reached within {limit} steps")

    def settle(self, limit: int = 2000) -> None:
        """Step until nothing runs or waits, then once more: an idle step checks the pools for leaks."""
        self.run_until(lambda: not self._inbox and self.scheduler.is_fully_idle(), limit)
        self.step()

    # ---- state

    @property
    def pools(self):
        """SGLang's PoolStats: full_available_size, full_evictable_size, mamba_available_size, ..."""
        return self.scheduler.pool_stats_observer.get_pool_stats()

    @property
    def draft_worker(self):
        return self.scheduler.draft_worker

    @property
    def model_runner(self):
        return self.scheduler.tp_worker.model_runner

    # ---- the engine's thread

    def _run(self, settings: dict[str, Any]) -> None:
        try:
            self.scheduler = _start_scheduler(settings)
            self._watch(self.scheduler)
            self.scheduler.run_event_loop()
        except BaseException as error:
            self._error = error
        finally:
            self._parked.release()

    def _watch(self, scheduler) -> None:
        process = scheduler.process_batch_result
        scheduler.ingest_requests = self._ingest
        scheduler.process_batch_result = lambda batch, result: self._record(process, batch, result)

    def _ingest(self, stop_at_pause: bool = False) -> list[Any]:
        self._parked.release()
        self._go.acquire()
        if self._closing:
            raise _Closed
        arrived, self._inbox = self._inbox, []
        scheduler = self.scheduler
        scheduler.process_input_requests(arrived)
        for req in [*scheduler.waiting_queue, *scheduler.grammar_manager.grammar_queue]:
            self.outputs[req.rid].req = req
        return arrived

    def _record(self, process, batch, result):
        reqs, before = list(batch.reqs), [len(req.output_ids) for req in batch.reqs]
        mode = "extend" if batch.forward_mode.is_extend() else "decode"
        answer = process(batch, result)
        lengths = getattr(result, "accept_lens", None) if mode == "decode" else None
        for i, req in enumerate(reqs):
            new = list(req.output_ids[before[i] :])
            if req.rid in self.outputs and (new or mode == "extend"):
                accepted = None if lengths is None else int(lengths[i])
                self.outputs[req.rid].rounds.append(Round(mode, accepted, new, len(reqs)))
        return answer

    def _wait(self) -> None:
        self._parked.acquire()
        if self._error is not None and not isinstance(self._error, _Closed):
            raise self._error

    def close(self) -> None:
        """Stop, and free SGLang's process-wide state so that another engine can start."""
        if self._thread.is_alive():
            self._closing = True
            self._go.release()
            self._thread.join()
        self.scheduler = None
        _release_process_state()


class _Closed(Exception):
    """Leaves SGLang's event loop, which has no other way out in between two iterations."""


def _start_scheduler(settings: dict[str, Any]):
    from sglang.srt.plugins import load_plugins

    load_plugins()
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
        getattr(scheduler.ipc_channels, name).send_output = lambda *args, **kwargs: None  # nobody listens
    return scheduler


def _release_process_state() -> None:
    from sglang.srt.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel

    destroy_model_parallel()
    destroy_distributed_environment()
    gc.collect()
