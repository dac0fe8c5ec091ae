"""The Responses API through the client that its users have, and what an engine without memory refuses."""

import aiohttp
import openai
import pytest


def client(address):
    return openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="unused", max_retries=0)


def test_the_answer_is_the_one_that_chat_gives(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            found = await api.responses.create(model="demo", instructions="Be brief.", input="Why?")
            messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
            chat = await api.chat.completions.create(model="demo", messages=messages)
        assert (found.status, found.output_text) == ("completed", chat.choices[0].message.content)
        assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.total_tokens) == (
            chat.usage.prompt_tokens,
            chat.usage.completion_tokens,
            chat.usage.total_tokens,
        )

    play(scenario)


def test_a_stream_has_its_events_in_order(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            whole = await api.responses.create(model="demo", input=[{"role": "user", "content": "Why?"}])
            stream = await api.responses.create(model="demo", input="Why?", stream=True)
            events = [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        kinds = [event.type for event in events]
        assert kinds[:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
        assert kinds[-4:] == [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert "".join(deltas) == whole.output_text == events[-1].response.output_text
        assert len(deltas) == events[-1].response.usage.output_tokens

    play(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_an_incomplete_response_has_its_reason(play, stream):
    async def scenario(_engine, address):
        async with client(address) as api:
            asked = {"model": "demo", "input": "Why?", "max_output_tokens": 3}
            if stream:
                events = [event async for event in await api.responses.create(**asked, stream=True)]
                found = events[-1].response
                assert events[-1].type == "response.incomplete"
            else:
                found = await api.responses.create(**asked)
        assert (found.status, found.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert found.usage.output_tokens == 3

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0]"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
def test_what_is_refused_is_named(play, fields, param):
    async def scenario(_engine, address):
        body = {"model": "demo", "input": "Why?", **fields}
        url = f"http://{address}/v1/responses"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 400
            error = (await answer.json())["error"]
        assert error["param"].startswith(param)

    play(scenario)


def test_parts_of_earlier_turns_are_read(play):
    async def scenario(_engine, address):
        turns = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Two"}]},
            {"role": "user", "content": "Three"},
        ]
        async with client(address) as api:
            found = await api.responses.create(model="demo", input=turns)
        assert '"Three"' in found.output_text

    play(scenario)
