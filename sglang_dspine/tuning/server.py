"""A running DSPINE server as a bench: widths are forced through SGLang's /set_internal_state, round times are those its
scheduler sees (`worker.round_clock`), read from /server_info. Requests keep running while widths change under them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ..preflight.model import read_target
from .bench import Reading
from .failure import TuningError
from .hardware import identity

FIRST, LAST = 100, 20_000  # ids for prompts of random tokens, below the vocabulary where it is known
ROOM = 8192  # new tokens of a request that is to keep running
SETTLING = 5  # rounds of a visit that the server counts and does not time
LONGEST_PAUSE_S = 5.0  # between two questions


class ServerBench:
    """Talks to `url`; raises TuningError when there is no DSPINE server that answers."""

    def __init__(
        self, url: str, prompt_tokens: int = 1024, seed: int = 0, api_key: str | None = None, last_id: int | None = None
    ) -> None:
        """last_id: prompts are of ids below it; None: of the target's vocabulary, if its folder is on this machine."""
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.url, self.prompt_tokens = url.rstrip("/"), prompt_tokens
        self.http = httpx.Client(
            base_url=self.url, headers=headers, timeout=120, trust_env=False, limits=httpx.Limits(max_connections=None)
        )
        self._draw = random.Random(seed)
        self._last_id = last_id or _last_id(str(self.info().get("model_path")))

    # ---- the server's own words

    def info(self) -> dict[str, Any]:
        """/server_info, with its `dspine` part made sure of."""
        try:
            answer = self.http.get("/server_info")
            answer.raise_for_status()
            info = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise TuningError(f"{self.url}/server_info: {error!r}; is the server up?") from error
        states = info.get("internal_states") or [{}]
        if "dspine" not in states[0]:
            raise TuningError(f"{self.url} does not serve with --speculative-algorithm DSPINE of this version")
        return info

    def state(self) -> dict[str, Any]:
        return self.info()["internal_states"][0]["dspine"]

    def tell(self, **settings: int) -> None:
        answer = self.http.post("/set_internal_state", json={"server_args": settings})
        if answer.status_code != 200 or not updated(answer.json()):
            raise TuningError(f"{self.url}/set_internal_state refused {settings}: {answer.text[:300]}")

    # ---- bench

    def widths(self) -> tuple[int, ...]:
        return tuple(int(width) for width in self.state()["widths"])

    def provenance(self) -> dict[str, Any]:
        info = self.info()
        names = {
            "sglang": "version", "target": "model_path", "draft": "speculative_draft_model_path",
            "target_dtype": "dtype", "target_quantization": "quantization",
            "draft_quantization": "speculative_draft_model_quantization", "attention": "attention_backend",
            "draft_attention": "speculative_draft_attention_backend", "mamba_ssm_dtype": "mamba_ssm_dtype",
            "tp_size": "tp_size", "load_format": "load_format", "kv_cache_dtype": "kv_cache_dtype",
            "draft_kv_cache_dtype": "speculative_draft_kv_cache_dtype",
            "draft_window": "speculative_draft_window_size", "page_size": "page_size",
            "graphs": "cuda_graph_backend_decode", "no_overlap": "disable_overlap_schedule",
            "replayssm": "enable_linear_replayssm_spec", "max_running_requests": "max_running_requests",
        }  # fmt: skip
        found = {key: info.get(name) for key, name in names.items()}
        for model in ("target", "draft"):
            found[model] = identity(str(found[model]))
        return {key: value for key, value in found.items() if value is not None} | {"context": self.prompt_tokens}

    @contextmanager
    def load(self, batch: int) -> Iterator[ServerLoad]:
        load = ServerLoad(self, batch)
        load.start()
        try:
            yield load
        finally:
            load.stop()
            self.tell(dspine_width=0)

    def room(self, batch: int) -> int:
        """New tokens that each of `batch` requests may take, so that all of them fit into the pools at once."""
        info = self.info()
        pool = info["internal_states"][0].get("memory_usage", {}).get("token_capacity") or ROOM * batch
        longest = info.get("max_req_input_len") or ROOM
        return max(64, min(ROOM, int(0.9 * pool) // batch - self.prompt_tokens, longest - self.prompt_tokens - 64))

    def prompt(self) -> list[int]:
        return [self._draw.randrange(min(FIRST, self._last_id - 1), self._last_id) for _ in range(self.prompt_tokens)]


class ServerLoad:
    """`batch` requests that decode until they are stopped; one that ends is sent again."""

    def __init__(self, bench: ServerBench, batch: int) -> None:
        self.bench, self.batch = bench, batch
        self._stopping, self._seconds = threading.Event(), 0.05  # of a round, in the visit before
        self._threads: list[threading.Thread] = []
        self._errors: list[str] = []
        self._new_tokens = bench.room(batch)

    def start(self) -> None:
        prompts = [self.bench.prompt() for _ in range(self.batch)]
        self._threads = [threading.Thread(target=self._keep_running, args=(ids,), daemon=True) for ids in prompts]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.bench.http.post("/abort_request", json={"abort_all": True})
        for thread in self._threads:
            thread.join(60)
        end = time.monotonic() + 30
        while time.monotonic() < end and self._running() > 0:
            time.sleep(0.05)

    def read(self, width: int, rounds: int, limit_s: float = 120.0) -> Reading:
        """See bench.Load. width 0: whatever the policy chooses.

        Polls seldom, and ever more seldom: an answer takes the scheduler's time and interrupts the clock, and rounds
        much slower than the last visit's would never be timed between two questions.
        """
        self.bench.tell(dspine_width=width)
        self.bench.tell(dspine_reset=1)
        end, timed = time.monotonic() + limit_s, 0
        cells: list[dict[str, Any]] = []
        pause = 0.05
        while time.monotonic() < end:
            time.sleep(max(pause, self._seconds * (rounds - timed + SETTLING)))
            pause = min(2 * pause, LONGEST_PAUSE_S)
            if self._errors:
                raise TuningError(f"a request failed: {self._errors[0]}")
            cells = self.bench.state()["rounds"]
            mine = [c for c in cells if c["batch"] == self.batch and (c["width"] == width or width == 0)]
            timed = mine[0]["timed"] if mine else 0
            if timed >= rounds:
                return self._reading(mine[0], width, sum(c["rounds"] for c in cells if width and c["width"] != width))
        raise TuningError(
            f"batch {self.batch}, width {width}: fewer than {rounds} rounds within {limit_s:.0f} s; the server ran "
            f"{[(c['batch'], c['width'], c['rounds']) for c in cells]} (batch, width, rounds). Does "
            f"--max-running-requests allow {self.batch}?"
        )

    def _reading(self, cell: dict[str, Any], width: int, others: int) -> Reading:
        if others > 2:  # rounds that were under way when the width changed
            raise TuningError(f"width {width} was forced and {others} rounds ran at another width")
        seconds = cell["seconds"] / cell["timed"]
        self._seconds = seconds
        per_request = cell["tokens"] / (cell["finished"] * self.batch) if cell["finished"] else 1.0
        return Reading(1e3 * seconds, cell["timed"], per_request)

    def _keep_running(self, ids: Sequence[int]) -> None:
        """Not streamed: one answer at the end leaves the server's other processes idle."""
        sampling = {"temperature": 0, "max_new_tokens": self._new_tokens, "ignore_eos": True}
        body = {"input_ids": list(ids), "sampling_params": sampling}
        try:
            while not self._stopping.is_set():
                answer = self.bench.http.post("/generate", json=body, timeout=None)
                if answer.status_code != 200 and not self._stopping.is_set():
                    self._errors.append(answer.text[:300])
                    return
        except httpx.HTTPError as error:
            if not self._stopping.is_set():
                self._errors.append(repr(error))

    def _running(self) -> int:
        return sum(thread.is_alive() for thread in self._threads)


def _last_id(target: str) -> int:
    try:
        return min(LAST, read_target(Path(target)).vocab or LAST)
    except (OSError, ValueError):
        return LAST


def updated(answer: Any) -> bool:
    """SGLang answers with one truth value for each data-parallel replica."""
    return isinstance(answer, list) and len(answer) > 0 and all(answer)
