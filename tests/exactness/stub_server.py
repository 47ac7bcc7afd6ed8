"""An HTTP server that answers the part of SGLang's native API the suite uses, from a target one can read.

The target's row after a text depends on its last two tokens. Faults are planted through the keyword arguments.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from sglang_dspine.exactness.filters import Sampling, softmax, target_law

VOCAB = 24
WORDS = np.random.default_rng(7).normal(scale=2.0, size=(VOCAB, VOCAB, VOCAB))


def target_row(ids):
    """Logprobs [VOCAB] of the token after `ids`."""
    before = ids[-2] if len(ids) > 1 else 0
    return np.log(softmax(WORDS[before, ids[-1]]))


class Stub:
    """What the server does; every argument but the first is a way of being wrong."""

    def __init__(
        self,
        *,
        blocks=(1,),
        wrong_token_at=None,
        runner_up_at=None,
        decode_noise=0.0,
        cached=0,
        law=target_law,
        status=200,
    ):
        self.blocks, self.wrong_token_at, self.runner_up_at = blocks, wrong_token_at, runner_up_at
        self.decode_noise, self.cached, self.law, self.status = decode_noise, cached, law, status
        self.rng = np.random.default_rng(0)
        self.salts = []
        self.lock = threading.Lock()

    def generate(self, body):
        params = body["sampling_params"]
        sampling = Sampling(**{k: params[k] for k in ("temperature", "top_k", "top_p", "min_p") if k in params})
        text, out, rows = list(body["input_ids"]), [], []
        for k in range(params["max_new_tokens"]):
            with self.lock:
                noise = self.rng.normal(size=VOCAB) * self.decode_noise
                u = self.rng.random()
            row = np.log(softmax(target_row(text) + noise))
            token = int(np.searchsorted(np.cumsum(self.law(row, sampling)), u).clip(max=VOCAB - 1))
            if k == self.wrong_token_at:
                token = int(row.argmin())
            if k == self.runner_up_at:
                token = int(row.argsort()[-2])
            rows.append(row)
            out.append(token)
            text.append(token)
        meta = {"finish_reason": {"type": "length"}, "cached_tokens": 0}
        if body.get("return_logprob"):
            meta["output_top_logprobs"] = [top(row, body["top_logprobs_num"]) for row in rows]
        if len(self.blocks) > 1:
            meta["spec_accept_length"] = float(np.mean(self.blocks[1:]))
        return {"output_ids": out, "meta_info": meta}

    def score(self, body):
        ids, start = body["input_ids"], body["logprob_start_len"]
        self.salts.append(body["cache_salt"])
        rows = [target_row(ids[:k]) for k in range(start + 1, len(ids))]
        chosen = [[None, ids[start], None]]
        for k, row in enumerate(rows, start=start + 1):
            label = 0 if ids[k] == VOCAB - 1 else ids[k]  # as SGLang labels the last id
            chosen.append([float(row[ids[k]]), label, None])
        tops = [None, *(top(row, body["top_logprobs_num"]) for row in rows)]
        meta = {"input_token_logprobs": chosen, "input_top_logprobs": tops, "cached_tokens": self.cached}
        return {"output_ids": [0], "meta_info": {"finish_reason": {"type": "length"}, **meta}}

    def pieces(self, answer):
        """The answer as a stream sends it: all tokens so far, one block more each time."""
        ids, sent, i = answer["output_ids"], 0, 0
        while sent < len(ids):
            sent = min(len(ids), sent + self.blocks[min(i, len(self.blocks) - 1)])
            i += 1
            yield {**(answer if sent == len(ids) else {}), "output_ids": ids[:sent]}


def top(row, count):
    return [[float(row[i]), int(i), None] for i in np.argsort(-row)[:count]]


@contextmanager
def serving(stub):
    """The address of a running stub."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer({"model_path": "stub"})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            if stub.status != 200:
                return self.answer({"error": {"message": "no"}})
            if self.path == "/tokenize":
                return self.answer({"tokens": [b % VOCAB for b in body["prompt"].encode()]})
            if self.path == "/generate" and "cache_salt" in body:
                return self.answer(stub.score(body))
            if self.path == "/generate" and body.get("stream"):
                lines = [f"data: {json.dumps(piece)}\n\n" for piece in stub.pieces(stub.generate(body))]
                return self.send("".join([*lines, "data: [DONE]\n\n"]).encode())
            return self.answer(stub.generate(body) if self.path == "/generate" else {})

        def answer(self, value):
            self.send(json.dumps(value).encode())

        def send(self, data):
            self.send_response(stub.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # clients connect many at a time

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
