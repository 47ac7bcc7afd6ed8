"""The Anthropic Messages API of an endpoint that speculates, as docs/deploy.md describes it."""

from __future__ import annotations

import json

import pytest

from .conftest import KEY

pytestmark = pytest.mark.full
ASKED = {
    "model": "default",
    "max_tokens": 24,
    "temperature": 0,
    "messages": [{"role": "user", "content": "def area(w):"}],
}
BEARER = {"Authorization": f"Bearer {KEY}"}


def post(endpoint, path: str = "", headers=BEARER, **changes):
    return endpoint.client.post(f"/v1/messages{path}", json=ASKED | changes, headers=headers)


def test_a_message_has_the_apis_form(endpoint):
    answer = post(endpoint).json()
    assert answer["type"] == "message" and answer["role"] == "assistant" and answer["stop_reason"] == "max_tokens"
    assert answer["usage"]["output_tokens"] == 24 and answer["content"][0]["type"] == "text"


def test_a_stream_joins_to_the_text_of_the_whole_message(endpoint):
    whole = post(endpoint).json()["content"][0]["text"]
    events = [
        json.loads(line[6:]) for line in post(endpoint, stream=True).text.splitlines() if line.startswith("data: ")
    ]
    text = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    assert text == whole and events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"


def test_tokens_are_counted_as_they_are_used(endpoint):
    counted = post(endpoint, "/count_tokens").json()["input_tokens"]
    assert counted == post(endpoint).json()["usage"]["input_tokens"]


def test_the_key_is_read_from_authorization_and_not_from_x_api_key(endpoint):
    assert post(endpoint, headers={"x-api-key": KEY}).status_code == 401
    assert post(endpoint, headers={}).status_code == 401


def test_a_wrong_request_is_an_error_of_the_api(endpoint):
    answer = post(endpoint, messages=[])
    assert answer.status_code == 400 and answer.json()["type"] == "error"


def test_anthropics_own_client_speaks_to_it(endpoint):
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=endpoint.url, auth_token=KEY, max_retries=0)
    asked = {**ASKED, "extra_body": {"temperature": ASKED["temperature"]}}  # newer clients have no such parameter
    del asked["temperature"]
    whole = client.messages.create(**asked)
    assert whole.usage.output_tokens == 24
    with client.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
