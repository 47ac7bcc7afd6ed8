"""Anthropic's own client against an endpoint that speculates, as docs/deploy.md tells users to set it up."""

from __future__ import annotations

import json

import anthropic
import pytest

from .conftest import AREA, KEY, NUMBER

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("clients")]
GREEDY = {"temperature": 0}  # newer clients have no such parameter of their own
ASKED = {"model": "default", "max_tokens": 24, "messages": AREA, "extra_body": GREEDY}
TOOL = {"name": "set_width", "description": "", "input_schema": NUMBER}
CALL = {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "set_width", "disable_parallel_tool_use": True}}
CALL["max_tokens"] = 200


@pytest.fixture(scope="module")
def client(endpoint):
    return anthropic.Anthropic(base_url=endpoint.url, auth_token=KEY, api_key=None, max_retries=0)


def test_a_message_has_the_apis_form(client):
    answer = client.messages.create(**ASKED)
    assert answer.type == "message" and answer.role == "assistant" and answer.stop_reason == "max_tokens"
    assert answer.usage.output_tokens == 24 and answer.content[0].type == "text"


def test_a_stream_joins_to_the_text_of_the_whole_message(client):
    whole = client.messages.create(**ASKED)
    with client.messages.stream(**ASKED) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == whole.content[0].text == last.content[0].text
    assert last.stop_reason == "max_tokens" and last.usage.output_tokens == 24


def test_a_streams_events_come_in_the_apis_order(client):
    kinds = [event.type for event in client.messages.create(**ASKED, stream=True)]
    order = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
    assert [kind for i, kind in enumerate(kinds) if kind not in kinds[:i]] == [*order, "message_stop"]


def test_a_system_prompt_and_turns_of_blocks_are_read(client):
    plain = client.messages.create(**ASKED).usage.input_tokens
    turns = [*AREA, {"role": "assistant", "content": [{"type": "text", "text": "return"}]}, *AREA]
    asked = {**ASKED, "system": "Be short.", "messages": turns}
    used = client.messages.create(**asked).usage
    assert used.input_tokens + (used.cache_read_input_tokens or 0) > plain


def test_tokens_are_counted_as_they_are_used(client):
    counted = client.messages.count_tokens(model="default", messages=AREA).input_tokens
    used = client.messages.create(**ASKED).usage
    assert counted == used.input_tokens + (used.cache_read_input_tokens or 0)


def test_a_stop_sequence_ends_the_text_inside_a_block(client):
    text = client.messages.create(**ASKED).content[0].text
    stop = text[5:7]
    cut = client.messages.create(**ASKED, stop_sequences=[stop])
    assert cut.content[0].text == text[: text.index(stop)] and cut.stop_reason in (
        "stop_sequence",
        "end_turn",
    )  # 0.5.23: the latter


def test_a_tool_is_called_with_an_input_of_its_schema(client):
    answer = client.messages.create(**ASKED | CALL)
    (call,) = [block for block in answer.content if block.type == "tool_use"]
    assert answer.stop_reason == "tool_use" and call.name == "set_width" and 0 <= call.input["n"] <= 99


def test_a_tool_call_is_streamed_to_the_same_input(client):
    whole = client.messages.create(**ASKED | CALL).content[-1]
    with client.messages.stream(**ASKED | CALL) as stream:
        last = stream.get_final_message()
    assert last.stop_reason == "tool_use" and last.content[-1].input == whole.input


def test_a_json_schema_holds(client):
    form = {"format": {"type": "json_schema", "schema": NUMBER}}
    answer = client.messages.create(**ASKED | {"max_tokens": 64}, output_config=form)
    assert 0 <= json.loads(answer.content[0].text)["n"] <= 99


def test_a_tools_result_is_taken_back(client):
    use = {"type": "tool_use", "id": "c", "name": "set_width", "input": {"n": 3}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "done"}
    turns = [*AREA, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    answer = client.messages.create(
        **ASKED | {"messages": turns, "max_tokens": 4}, tools=[TOOL], tool_choice={"type": "none"}
    )
    assert answer.usage.output_tokens == 4


def test_a_closed_stream_frees_its_place(client, endpoint):
    from .test_openai import idle

    with client.messages.stream(**ASKED | {"max_tokens": 4000}) as stream:
        next(iter(stream.text_stream))
    assert client.messages.create(**ASKED | {"max_tokens": 4}).usage.output_tokens == 4
    assert idle(endpoint)


def test_a_stream_that_cannot_begin_is_an_error_of_the_api(client):
    with pytest.raises(anthropic.APIError) as caught:
        list(client.messages.create(**ASKED | {"max_tokens": 10_000}, stream=True))
    assert "maximum context length" in str(caught.value)


def test_the_key_is_read_from_authorization_alone(client, endpoint):
    asked = {"model": "default", "max_tokens": 4, "messages": AREA}
    refused = endpoint.client.post("/v1/messages", json=asked, headers={"x-api-key": KEY})
    assert refused.status_code == 401
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=endpoint.url, auth_token="other", max_retries=0).messages.create(**ASKED)


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": []},
        {"max_tokens": 10_000},
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "other"}},
    ],
    ids=["no message", "longer than the context", "a tool that is not there"],
)
def test_a_wrong_request_is_an_error_of_the_api_and_the_server_goes_on(client, changes):
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**ASKED | changes)
    assert caught.value.body["type"] == "error" and caught.value.body["error"]["message"]
    assert client.messages.create(**ASKED).usage.output_tokens == 24
