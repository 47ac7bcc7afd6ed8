"""OpenAI's own client against an endpoint that speculates."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from .conftest import AREA, KEY, NUMBER

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("clients")]
ASKED = {"model": "default", "messages": AREA}
TOOL = {"type": "function", "function": {"name": "set_width", "description": "", "parameters": NUMBER}}
CALLS = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 200, "temperature": 0}
TOLD = {"return_spec_tokens_details": True}


@pytest.fixture(scope="module")
def client(endpoint):
    return openai.OpenAI(base_url=f"{endpoint.url}/v1", api_key=KEY, max_retries=0)


def test_the_model_is_listed(client, endpoint):
    assert [model.id for model in client.models.list()]


def test_a_stream_joins_to_the_text_of_the_whole_answer(client):
    whole = client.chat.completions.create(**ASKED, max_tokens=24, temperature=0)
    parts = list(
        client.chat.completions.create(
            **ASKED, max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == whole.choices[0].message.content and whole.choices[0].finish_reason == "length"
    assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens == 24


def test_one_request_alone_is_told_its_accepted_length_and_width(client):
    answer = client.chat.completions.create(**ASKED, max_tokens=24, temperature=0, extra_body=TOLD)
    details = answer.model_extra["sglext"]["spec_tokens_details"]
    rounds, by_width = details["spec_verify_ct"], details["spec_cap_lens_histogram"]
    assert answer.usage.completion_tokens == 24 and 0 < rounds < 24
    assert details["spec_accept_length"] > 1 and details["spec_cap_length"] == 16.0
    assert by_width[16] == rounds == sum(by_width)


def test_requests_that_were_decoded_plainly_for_a_while_are_told_how_many_rounds(client):
    """So long that three overlap however slowly the second and third arrive; the first of 48 tokens once had ended."""
    asked = {**ASKED, "max_tokens": 400, "temperature": 0, "extra_body": {**TOLD, "ignore_eos": True}}
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: client.chat.completions.create(**asked), range(3)))
    for details in (answer.model_extra["sglext"]["spec_tokens_details"] for answer in answers):
        by_width = details["spec_cap_lens_histogram"]
        assert by_width[1] > 0 and sum(by_width) == details["spec_verify_ct"]
        mean = sum(width * count for width, count in enumerate(by_width)) / sum(by_width)
        assert details["spec_cap_length"] == pytest.approx(mean) and mean < 16


def test_a_stream_tells_the_same_in_its_last_part(client):
    asked = {**ASKED, "max_tokens": 24, "temperature": 0, "stream": True, "extra_body": TOLD}
    told = [
        part.model_extra["sglext"] for part in client.chat.completions.create(**asked) if "sglext" in part.model_extra
    ]
    (details,) = [one["spec_tokens_details"] for one in told if one and one.get("spec_tokens_details")]
    assert details["spec_cap_length"] == 16.0 and details["spec_accept_length"] > 1


def test_logprobs_are_of_the_tokens_that_were_written(client):
    answer = client.chat.completions.create(**ASKED, max_tokens=8, temperature=0, logprobs=True, top_logprobs=2)
    rows = answer.choices[0].logprobs.content
    assert len(rows) == 8 and all(row.token == row.top_logprobs[0].token and row.logprob <= 0 for row in rows)


def test_n_answers_come_back(client):
    answer = client.chat.completions.create(**ASKED, max_tokens=8, temperature=1.0, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.usage.completion_tokens == 24


def test_a_stop_sequence_ends_the_text_inside_a_block(client):
    asked = {"model": "default", "prompt": "for i in range(", "max_tokens": 32, "temperature": 0}
    text = client.completions.create(**asked).choices[0].text
    stop = text[5:7]
    cut = client.completions.create(**asked, stop=[stop]).choices[0]
    assert cut.text == text[: text.index(stop)] and cut.finish_reason == "stop"


def test_a_json_schema_holds(client):
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": NUMBER}}
    answer = client.chat.completions.create(**ASKED, max_tokens=64, temperature=0, response_format=form)
    assert 0 <= json.loads(answer.choices[0].message.content)["n"] <= 99


def test_a_tool_is_called_with_arguments_of_its_schema(client):
    choice = client.chat.completions.create(**ASKED, **CALLS).choices[0]
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and call.function.name == "set_width" and call.id
    assert 0 <= json.loads(call.function.arguments)["n"] <= 99


def test_a_tool_call_is_streamed_in_pieces_of_the_same_arguments(client):
    whole = client.chat.completions.create(**ASKED, **CALLS).choices[0].message.tool_calls[0].function
    parts = [part.choices[0] for part in client.chat.completions.create(**ASKED, **CALLS, stream=True) if part.choices]
    pieces = [call.function for part in parts for call in part.delta.tool_calls or []]
    assert "".join(piece.name or "" for piece in pieces) == whole.name
    assert json.loads("".join(piece.arguments or "" for piece in pieces)) == json.loads(whole.arguments)
    assert parts[-1].finish_reason == "tool_calls"


def test_a_tools_answer_is_taken_back(client):
    call = {"id": "c", "type": "function", "function": {"name": "set_width", "arguments": '{"n": 3}'}}
    turns = [*AREA, {"role": "assistant", "content": "", "tool_calls": [call]}]
    turns.append({"role": "tool", "tool_call_id": "c", "content": "done"})
    answer = client.chat.completions.create(
        model="default", messages=turns, tools=[TOOL], tool_choice="none", max_tokens=4
    )
    assert answer.usage.completion_tokens == 4


def test_a_closed_stream_frees_its_place(client, endpoint):
    stream = client.chat.completions.create(**ASKED, max_tokens=4000, temperature=0, stream=True)
    next(iter(stream))
    stream.close()
    assert client.chat.completions.create(**ASKED, max_tokens=4, temperature=0).usage.completion_tokens == 4
    assert idle(endpoint)


@pytest.mark.parametrize(
    ("error", "changes"),
    [
        (openai.BadRequestError, {"temperature": -1}),
        (openai.BadRequestError, {"max_tokens": 100_000}),
        (openai.BadRequestError, {"messages": []}),
        (
            openai.BadRequestError,
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "none such"}}},
        ),
    ],
    ids=["temperature below 0", "longer than the context", "no message", "a tool that is not there"],
)
def test_a_wrong_request_is_an_error_of_the_api_and_the_server_goes_on(client, error, changes):
    with pytest.raises(error) as caught:
        client.chat.completions.create(**{**ASKED, "max_tokens": 4, **changes})
    assert caught.value.message
    assert client.chat.completions.create(**ASKED, max_tokens=4).usage.completion_tokens == 4


def test_a_wrong_key_and_an_unknown_path_are_errors_of_the_api(client, endpoint):
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{endpoint.url}/v1", api_key="other", max_retries=0).models.list()
    with pytest.raises(openai.NotFoundError):
        client.get("/nowhere", cast_to=object)


def idle(endpoint) -> bool:
    """Whether no request runs, soon."""
    import time

    for _ in range(100):
        metrics = endpoint.client.get("/metrics").text
        running = [line for line in metrics.splitlines() if line.startswith("sglang:num_running_reqs{")]
        if running and all(float(line.split()[-1]) == 0 for line in running):
            return True
        time.sleep(0.2)
    return False
