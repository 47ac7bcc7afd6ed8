"""OpenAI's own client against an endpoint that speculates."""

from __future__ import annotations

import json

import pytest

from .conftest import KEY

pytestmark = pytest.mark.full
ASKED = {"model": "default", "messages": [{"role": "user", "content": "def area(width, height):"}]}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["n"],
    "additionalProperties": False,
}
COMPACT = {"32": -100, "10": -100, "9": -100}  # JSON allows white space without end, and this small model loves it


@pytest.fixture(scope="module")
def client(endpoint):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"{endpoint.url}/v1", api_key=KEY, max_retries=0)


def test_chat_tells_what_was_accepted_when_asked(client):
    asked = {"return_spec_tokens_details": True}
    answer = client.chat.completions.create(**ASKED, max_tokens=24, temperature=0, extra_body=asked)
    details = answer.model_extra["sglext"]["spec_tokens_details"]
    assert answer.usage.completion_tokens == 24 and details["spec_verify_ct"] < 24
    assert details["spec_accept_length"] > 1


def test_a_stream_joins_to_the_text_of_the_whole_answer(client):
    whole = client.chat.completions.create(**ASKED, max_tokens=24, temperature=0).choices[0].message.content
    parts = client.chat.completions.create(**ASKED, max_tokens=24, temperature=0, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == whole


def test_logprobs_are_of_the_tokens_that_were_written(client):
    answer = client.chat.completions.create(**ASKED, max_tokens=8, temperature=0, logprobs=True, top_logprobs=2)
    rows = answer.choices[0].logprobs.content
    assert len(rows) == 8 and all(row.token == row.top_logprobs[0].token and row.logprob <= 0 for row in rows)


def test_n_answers_come_back(client):
    answer = client.chat.completions.create(**ASKED, max_tokens=8, temperature=1.0, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


def test_a_stop_sequence_ends_the_text_inside_a_block(client):
    whole = client.completions.create(model="default", prompt="for i in range(", max_tokens=32, temperature=0)
    text = whole.choices[0].text
    stop = text[5:7]
    cut = client.completions.create(
        model="default", prompt="for i in range(", max_tokens=32, temperature=0, stop=[stop]
    )
    assert cut.choices[0].text == text[: text.index(stop)] and cut.choices[0].finish_reason == "stop"


def test_a_json_schema_holds(client):
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    asked = {"max_tokens": 64, "temperature": 0, "logit_bias": COMPACT, "response_format": form}
    answer = client.chat.completions.create(**ASKED, **asked)
    assert 0 <= json.loads(answer.choices[0].message.content)["n"] <= 99


def test_a_closed_stream_frees_its_place(client, endpoint):
    stream = client.chat.completions.create(**ASKED, max_tokens=4000, temperature=0, stream=True)
    next(iter(stream))
    stream.close()
    assert client.chat.completions.create(**ASKED, max_tokens=4, temperature=0).usage.completion_tokens == 4


def test_a_wrong_key_and_a_wrong_parameter_are_errors_of_the_api(client, endpoint):
    import openai

    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{endpoint.url}/v1", api_key="other", max_retries=0).models.list()
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**ASKED, max_tokens=4, temperature=-1)
