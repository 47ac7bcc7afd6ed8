"""Two demo replicas behind SGLang's router: prefixes find their replica, draining cuts nothing off, and when a replica
is killed every request that had not begun to stream is answered, and every stream that had ends in an error.

The tests of this module follow each other: the last ones kill the replicas.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import pytest

from ..support import pairs
from ..support.http_server import HttpServer
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.process import GPU
from ..support.router import Router

pytest.importorskip("sglang_router", reason="SGLang's router is not installed: pip install sglang-router==0.3.2")
pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("http"),
    pytest.mark.skipif(GPU, reason="serves on the CPU"),
]
PROMPTS, LONG = held_out_code(24, 120), 160
ENDLESS = 1500  # tokens of a stream that must still run when something happens to it
GREEDY = {"temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def fleet() -> Iterator[list[HttpServer]]:
    servers = [replica() for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(HttpServer.__enter__, servers))
    yield servers
    for server in servers:
        server.__exit__()


def replica() -> HttpServer:
    draft = {"speculative_algorithm": "DSPINE", "speculative_draft_model_path": pairs.demo().draft}
    settings = {**EXTRA_BUFFER, **draft, "disable_overlap_schedule": None, "log_level": "info"}
    settings["max_total_tokens"] = 4 * (ENDLESS + LONG)
    return HttpServer(pairs.demo().target, timeout_s=240, **settings)


@pytest.fixture
def replicas(fleet) -> list[HttpServer]:
    """Two that live: a test may kill them, and none may rely on what another has killed."""
    for i, server in enumerate(fleet):
        if server.process.poll() is not None:
            server.__exit__()
            fleet[i] = replica()
            fleet[i].__enter__()
    return fleet


@pytest.fixture
def router(replicas) -> Iterator[Router]:
    """As in the compose file, but balanced from the second request on: a test has few."""
    with Router([r.url for r in replicas], balance_abs_threshold=1, health_check_interval_secs=1) as running:
        yield running


@pytest.fixture
def expected(replicas) -> Callable[[list[int]], list[int]]:
    """The greedy text of a prompt, asked of a replica itself. Asked after the events: it warms caches."""
    return lambda ids: replicas[1].generate(ids, max_new_tokens=LONG, ignore_eos=True)["output_ids"]


def body(ids: list[int], stream: bool = False, tokens: int = LONG) -> dict:
    return {"input_ids": ids, "sampling_params": {**GREEDY, "max_new_tokens": tokens}, "stream": stream}


def ask(router: Router, ids: list[int], tokens: int = LONG) -> httpx.Response:
    return httpx.post(router.url + "/generate", json=body(ids, tokens=tokens), timeout=100, trust_env=False)


@dataclass
class Stream:
    """One streamed request."""

    ids: list[int]
    events: list[str] = field(default_factory=list)
    error: Exception | None = None

    def run(self, router: Router) -> Stream:
        try:
            with httpx.stream(
                "POST", router.url + "/generate", json=body(self.ids, True, ENDLESS), timeout=100, trust_env=False
            ) as answer:
                answer.raise_for_status()
                for line in answer.iter_lines():
                    if line:
                        self.events.append(line)
        except httpx.HTTPError as error:
            self.error = error
        return self

    @property
    def output(self) -> list[int]:
        """The tokens that have come."""
        return [t for line in self.events if line.startswith("data: {") for t in json.loads(line[6:])["output_ids"]]

    @property
    def whole(self) -> bool:
        return bool(self.events) and self.events[-1] == "data: [DONE]"


def streaming(router: Router, prompts: list[list[int]], event: Callable[[], None]) -> list[Stream]:
    """Streams side by side; `event` once all have begun."""
    streams = [Stream(ids) for ids in prompts]
    threads = [threading.Thread(target=stream.run, args=(router,)) for stream in streams]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    while not all(s.events or s.error for s in streams) and time.monotonic() < deadline:
        time.sleep(0.05)
    event()
    for thread in threads:
        thread.join()
    return streams


def asked(replica: HttpServer) -> int:
    return replica.log.read_text(errors="replace").count('"POST /generate HTTP')


def test_a_prompt_that_was_seen_goes_to_the_replica_that_saw_it(replicas, router):
    prompts = PROMPTS[:4]
    with ThreadPoolExecutor(4) as pool:
        first = list(pool.map(lambda ids: ask(router, ids, 8).json(), prompts))
    assert all(asked(replica) > 1 for replica in replicas), "one replica got everything: nothing to find"
    again = [ask(router, ids, 8).json() for ids in prompts]
    assert [a["output_ids"] for a in again] == [a["output_ids"] for a in first]
    assert all(answer["meta_info"]["cached_tokens"] > 60 for answer in again)


def test_draining_cuts_nothing_off_and_sends_nothing_more(replicas, router):
    leaving = replicas[0].url
    streams = streaming(router, PROMPTS[4:8], lambda: router.drain(leaving))
    assert all(s.whole and s.error is None for s in streams), [s.error for s in streams]
    before = asked(replicas[0])
    assert all(ask(router, ids, 4).status_code == 200 for ids in PROMPTS[8:12])
    assert asked(replicas[0]) == before
    router.add(leaving)


def test_a_killed_replica_loses_no_request_that_had_not_begun_to_stream_and_with_none_left_the_router_says_so(
    replicas, router, expected
):
    waiting: list[httpx.Response] = []
    with ThreadPoolExecutor(6) as pool:

        def kill() -> None:
            futures = [pool.submit(ask, router, ids) for ids in PROMPTS[16:22]]
            time.sleep(1)  # the router has passed them on
            os.killpg(replicas[0].process.pid, signal.SIGKILL)
            waiting.extend(future.result() for future in futures)

        streams = streaming(router, PROMPTS[12:16], kill)
    assert [answer.status_code for answer in waiting] == [200] * 6
    for ids, answer in zip(PROMPTS[16:22], waiting, strict=True):
        assert answer.json()["output_ids"] == expected(ids)
    broken = [s for s in streams if not s.whole]
    assert 0 < len(broken) < len(streams), "streams on both replicas"
    for stream in broken:
        assert isinstance(stream.error, httpx.RemoteProtocolError) and stream.events
    router.wait_for(1)
    assert ask(router, PROMPTS[22], 8).status_code == 200

    os.killpg(replicas[1].process.pid, signal.SIGKILL)  # and now none is left
    router.wait_for(0)
    answer = ask(router, PROMPTS[23], 8)
    assert answer.status_code == 503 and "No available workers" in answer.text
