"""A running endpoint: does it speculate, how, and what is accepted?"""

from __future__ import annotations

from typing import Any

import httpx

from ..errors import DSpineError
from ..preflight.finding import FAIL, OK, WARN, Finding
from ..serve.ask import Asker

PROMPT, NEW_TOKENS = "def fibonacci(n):\n", 64
COLLAPSED = 1.2  # accepted length at which drafting only costs


def look_at_endpoint(url: str, api_key: str | None = None) -> list[Finding]:
    """Asks for 64 tokens; everything else is read."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            client.get("/health").raise_for_status()
            answer = client.get("/server_info")
            answer.raise_for_status()
            info = answer.json()
            metrics = client.get("/metrics")
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        todo = "pass --api-key" if status in (401, 403) else "look at its log: ./serve.sh --logs"
        return [Finding(FAIL, "endpoint", f"{error.request.url}: status {status}", todo)]
    except (httpx.HTTPError, ValueError) as error:
        todo = "start it with ./serve.sh, or correct --url"
        return [Finding(FAIL, "endpoint", f"{url}: {error or type(error).__name__}", todo)]
    return [*_settings(url, info), _metrics(metrics), _acceptance(url, api_key, info)]


def _settings(url: str, info: dict[str, Any]) -> list[Finding]:
    algorithm = info.get("speculative_algorithm")
    if algorithm != "DSPINE":
        todo = "start it with --speculative-algorithm DSPINE and --speculative-draft-model-path"
        return [Finding(FAIL, "speculation", f"{url} runs {algorithm or 'without speculation'}", todo)]
    named = {
        "draft": "speculative_draft_model_path",
        "width": "speculative_num_draft_tokens",
        "draft attention": "speculative_draft_attention_backend",
        "ReplaySSM": "enable_linear_replayssm_spec",
    }
    found = ", ".join(f"{name} {info[key]}" for name, key in named.items() if key in info)
    widths = (_state(info).get("dspine") or {}).get("rounds_by_width")
    rounds = f"; rounds by width {widths}" if widths else ""
    return [Finding(OK, "speculation", f"{info.get('model_path')}: DSPINE, {found}{rounds}")]


def _state(info: dict[str, Any]) -> dict[str, Any]:
    return (info.get("internal_states") or [{}])[0]


def _metrics(answer: httpx.Response) -> Finding:
    if answer.status_code != 200 or "sglang:" not in answer.text:
        return Finding(WARN, "metrics", "/metrics has none of SGLang's", "start the server with --enable-metrics")
    return Finding(OK, "metrics", f"{answer.text.count('# TYPE sglang:')} of SGLang and this package at /metrics")


def _acceptance(url: str, api_key: str | None, info: dict[str, Any]) -> Finding:
    """Of one greedy request now, and the server's mean since it started."""
    try:
        length = Asker(url, api_key).ask_all([PROMPT], NEW_TOKENS).accepted_length
    except DSpineError as error:
        return Finding(FAIL, "acceptance", str(error), "look at its log: ./serve.sh --logs")
    mean = _state(info).get("avg_spec_accept_length")
    since = f", {mean:.2f} since it started" if isinstance(mean, (int, float)) and mean else ""
    if length is None:
        return Finding(
            FAIL, "acceptance", "no verify rounds in an answer", "start it with --speculative-algorithm DSPINE"
        )
    if length < COLLAPSED:
        todo = "the drafter hardly helps: check the pair (doctor --model --draft), and its quantisation"
        return Finding(WARN, "acceptance", f"accepted length {length:.2f}{since}", todo)
    return Finding(OK, "acceptance", f"accepted length {length:.2f} on one prompt{since}")
