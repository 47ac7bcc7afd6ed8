"""`python -m sglang.launch_server` in milliseconds: records how it was called, then answers as SGLang would.

STAND_IN_RECORD   folder for one JSON file per server: words, environment, pids of the server and of its child
STAND_IN_DIES     exit with this status before serving, after some log lines
STAND_IN_REFUSES  end as argparse does, with this complaint
STAND_IN_HANGS    never get healthy
STAND_IN_SLOW     seconds until an answer
STAND_IN_WRONG    the speculating server answers this many tokens of each text wrongly
STAND_IN_ROUNDS   verify rounds per answer (default 16)
STAND_IN_NATS     negative log-probability of every token that is scored (default 1)
"""

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

words = sys.argv[1:]
given = list(words)
if "--config" in words:  # SGLang puts the file's settings in front of the words
    name, _, text = Path(words[words.index("--config") + 1]).read_text().strip().partition(": ")
    words += [f"--{name}", json.loads(text)]
speculates = "--speculative-algorithm" in words
rounds, wrong = int(os.environ.get("STAND_IN_ROUNDS", "16")), int(os.environ.get("STAND_IN_WRONG", "0"))


def value(flag: str) -> str:
    return words[words.index(flag) + 1]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(503 if "STAND_IN_HANGS" in os.environ else 200, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "--api-key" in words and self.headers["Authorization"] != f"Bearer {value('--api-key')}":
            return self.answer(401, {})
        if self.path == "/tokenize":
            return self.answer(200, {"tokens": list(asked["prompt"].encode())})
        time.sleep(float(os.environ.get("STAND_IN_SLOW", "0")))
        count = asked["sampling_params"]["max_new_tokens"]
        seed = sum(asked["input_ids"]) if "input_ids" in asked else len(asked["text"])
        ids = [(seed + 7 * i) % 96 + 32 for i in range(count)]
        if speculates and wrong:
            ids[-wrong:] = [i + 1 for i in ids[-wrong:]]
        meta = {"completion_tokens": count} | ({"spec_verify_ct": rounds} if speculates else {})
        if asked.get("return_logprob"):
            scored = asked["input_ids"][asked["logprob_start_len"] :]
            rows = [[-float(os.environ.get("STAND_IN_NATS", "1")), token, None] for token in scored]
            meta |= {"input_token_logprobs": rows, "input_top_logprobs": [[row] for row in rows]}
        self.answer(200, {"output_ids": ids, "text": bytes(ids).decode(), "meta_info": meta})

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *ignored: object) -> None:
        """Silent."""


def main() -> None:
    print(f"server_args={words}", flush=True)  # as SGLang does, secrets and all
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # dies only if someone ends it
    if folder := os.environ.get("STAND_IN_RECORD"):
        record = {"words": given, "environment": dict(os.environ), "pids": [os.getpid(), child.pid]}
        Path(folder, f"{'dspine' if speculates else 'plain'}.json").write_text(json.dumps(record))
    print("[2026-01-01 00:00:00] loading weights", flush=True)
    if complaint := os.environ.get("STAND_IN_REFUSES"):
        print("\n".join(["usage: sglang serve", *(f"  [--flag-{i}]" for i in range(300))]), flush=True)
        print(f"sglang serve: error: {complaint}", flush=True)
        sys.exit(2)
    if status := os.environ.get("STAND_IN_DIES"):
        print("\n".join(f"line {i} of the log" for i in range(300)), flush=True)
        sys.exit(int(status))
    server = ThreadingHTTPServer((value("--host"), int(value("--port"))), Handler)
    server.serve_forever()
    time.sleep(600)


main()
