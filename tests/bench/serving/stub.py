"""A server that streams as SGLang's /generate does, a round every `pause` seconds, `blocks` tokens a round in turn."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle


class Stub:
    def __init__(self, *, pause: float = 0.0, blocks=(1,), speculates=False, fails=(), context: int = 1000) -> None:
        """fails: conversations' first tokens whose requests are refused."""
        self.pause, self.blocks, self.speculates = pause, blocks, speculates
        self.fails, self.context = fails, context
        self.asked: list[dict] = []  # bodies of /generate in order of arrival
        self.busy = self.busiest = self.flushed = 0
        self.lock = threading.Lock()

    def pieces(self, body: dict) -> Iterator[tuple[float, dict]]:
        """(pause before it, piece) of one answer."""
        ids, count = body["input_ids"], body["sampling_params"]["max_new_tokens"]
        done, rounds, histogram = 1, 0, [0] * 17
        blocks = cycle(self.blocks)
        while True:
            meta = {"prompt_tokens": len(ids), "cached_tokens": len(ids) // 2, "completion_tokens": done}
            meta["finish_reason"] = {"type": "length"} if done == count else None
            if self.speculates and rounds:
                meta |= {"spec_verify_ct": rounds, "spec_correct_drafts_histogram": histogram}
                meta |= {"spec_cap_lens_histogram": [0] * 8 + [rounds]}
            yield self.pause, {"text": "x" * done, "output_ids": list(range(done)), "meta_info": meta}
            if done == count:
                return
            block = min(next(blocks), count - done)
            done, rounds = done + block, rounds + 1
            histogram[block - 1] += 1


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    """The address of a running stub."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, {"context_length": stub.context, "dtype": "float32", "api_key": "secret"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            if self.path == "/tokenize":
                text = body.get("prompt") or "".join(m["content"] for m in body["messages"])
                return self.answer(200, {"tokens": list(text.encode())})
            if self.path == "/flush_cache":
                stub.flushed += 1
                return self.answer(200, {})
            with stub.lock:
                stub.asked.append(body)
                stub.busy += 1
                stub.busiest = max(stub.busiest, stub.busy)
            try:
                if body["input_ids"][0] in stub.fails:
                    return self.answer(500, {"error": "planted"})
                self.send_response(200)
                self.end_headers()
                for pause, piece in stub.pieces(body):
                    time.sleep(pause)
                    self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
            finally:
                with stub.lock:
                    stub.busy -= 1

        def answer(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *ignored: object) -> None:
            """Silent."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
