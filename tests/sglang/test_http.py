"""Through HTTP, as users meet it: the same tokens, exact usage, and any number of tokenizer workers."""

from __future__ import annotations

import json

import pytest

from ..support import pairs
from ..support.http_server import HttpServer
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.process import GPU

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("http"),  # one process starts the servers
    pytest.mark.skipif(GPU, reason="serves on the CPU"),
]
STEPS = 48


@pytest.fixture(scope="module", params=[1, 2], ids=["one tokenizer worker", "two tokenizer workers"])
def server(request):
    pair = pairs.demo()
    settings = {k: v for k, v in EXTRA_BUFFER.items() if k != "disable_overlap_schedule"}
    draft = {"speculative_algorithm": "DSPINE", "speculative_draft_model_path": pair.draft}
    with HttpServer(
        pair.target,
        timeout_s=500,
        disable_overlap_schedule=None,
        tokenizer_worker_num=request.param,
        **draft,
        **settings,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def texts(server):
    return [server.generate(ids, max_new_tokens=STEPS, ignore_eos=True)["output_ids"] for ids in held_out_code(3, 150)]


def test_alone_together_and_from_the_cache_the_text_is_the_targets(server, texts):
    prompts = held_out_code(3, 150)
    again = server.generate_together(prompts, max_new_tokens=STEPS, ignore_eos=True)
    for ids, text, answer in zip(prompts, texts, again, strict=True):
        assert_greedy(pairs.demo().target, ids, text)
        assert answer["output_ids"] == text
        told = answer["meta_info"]
        assert (told["prompt_tokens"], told["completion_tokens"]) == (len(ids), STEPS)
        assert told["cached_tokens"] > 0
        assert told["spec_accept_length"] > 1.5 and told["spec_verify_ct"] < STEPS


def test_a_stop_string_is_cut_off_and_usage_counts_what_was_sent(server, texts):
    prompt = bytes(held_out_code(3, 150)[0]).decode()
    text = bytes(texts[0]).decode()
    stop = text[20:23]
    body = {"model": "any", "prompt": prompt, "temperature": 0, "max_tokens": STEPS, "stop": stop}
    answer = server.client.post("/v1/completions", json=body).raise_for_status().json()
    assert answer["choices"][0]["text"] == text[: text.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == len(prompt)
    assert answer["usage"]["completion_tokens"] == text.index(stop) + len(stop)


def test_streamed_pieces_make_the_same_text(server, texts):
    prompt = bytes(held_out_code(3, 150)[1]).decode()
    body = {"model": "any", "prompt": prompt, "temperature": 0, "max_tokens": STEPS, "stream": True, "ignore_eos": True}
    pieces = []
    with server.client.stream("POST", "/v1/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                pieces += [choice["text"] for choice in json.loads(line[6:])["choices"]]
    assert len(pieces) > 1 and "".join(pieces) == bytes(texts[1]).decode()
