"""Real SGLang in one process: scheduler, target and draft workers, pools and radix cache, one step at a time.

The engine runs SGLang's own event loop, with or without overlap, on a thread that stops before every
iteration until `step()` lets it through; so nothing of the loop is rewritten here, and its idle-time leak
checks run too. Several engines may live in a process one after another, not side by side.
"""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Any

from .process import DEFAULTS, release_process_state, set_environment, start_scheduler
from .requests import Output, Request, Round

LIMIT_S = 240  # of a start, or of one step

set_environment()
__all__ = ["InProcessEngine", "Output", "Request", "Round"]


class InProcessEngine:
    """SGLang with `server_args` (names of ServerArgs fields) over process.DEFAULTS."""

    def __init__(self, model_path: str, **server_args):
        self.outputs: dict[str, Output] = {}
        self.scheduler: Any = None
        self._inbox: list[Any] = []
        self._go, self._parked = threading.Semaphore(0), threading.Semaphore(0)
        self._closing, self._count = False, 0
        self._error: BaseException | None = None
        settings = {**DEFAULTS, "model_path": model_path, **server_args}
        self._thread = threading.Thread(target=self._run, args=(settings,), name="engine", daemon=True)
        self._thread.start()
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> InProcessEngine:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    # ---- requests

    def generate(self, requests: list[Request], limit: int = 2000) -> list[Output]:
        """Send the requests together, and step until all are finished and the engine is idle."""
        outputs = [self.add_request(request) for request in requests]
        self.run_until(lambda: all(out.finished for out in outputs), limit)
        self.settle(limit)
        return outputs

    def add_request(self, request: Request) -> Output:
        """Queue a request; the next step lets the scheduler see it."""
        self._count += 1
        out = Output(request.rid or f"request-{self._count}")
        vocab_size = self.scheduler.model_config.vocab_size
        self._inbox.append(request.tokenized(out.rid, self.scheduler.tokenizer, vocab_size))
        self.outputs[out.rid] = out
        return out

    def abort(self, rid: str) -> None:
        """Queue the abort of a request; the next step carries it out."""
        from sglang.srt.managers.io_struct import AbortReq

        self._inbox.append(AbortReq(rid=rid))

    def flush(self) -> None:
        """Settle, then drop the prefix cache."""
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
    def alive(self) -> bool:
        return self._thread.is_alive()

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

    def close(self) -> None:
        """Stop, and free SGLang's process-wide state so that another engine can start."""
        if self.alive:
            self._closing = True
            self._go.release()
            self._thread.join(LIMIT_S)
            if self.alive:
                raise AssertionError(f"the engine's thread did not end within {LIMIT_S} s: {_where(self._thread)}")
        self.scheduler = None
        release_process_state()

    # ---- the engine's thread

    def _run(self, settings: dict[str, Any]) -> None:
        try:
            self.scheduler = start_scheduler(settings)
            process = self.scheduler.process_batch_result
            self.scheduler.process_batch_result = lambda batch, result: self._record(process, batch, result)
            self.scheduler.ingest_requests = self._ingest
            self.scheduler.run_event_loop()
        except _Closed:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._parked.release()

    def _ingest(self, stop_at_pause: bool = False) -> list[Any]:
        """In the place of the socket that SGLang's loop reads first in every iteration."""
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
        if not self._parked.acquire(timeout=LIMIT_S):
            raise AssertionError(f"the engine did not answer within {LIMIT_S} s: {_where(self._thread)}")
        if self._error is not None:
            raise self._error


def _where(thread: threading.Thread) -> str:
    """The innermost lines a thread stands at."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)[-6:]) if frame else "ended"


class _Closed(Exception):
    """Leaves SGLang's event loop, which has no other way out between two iterations."""
