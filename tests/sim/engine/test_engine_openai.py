"""The engine through the client that its users have."""

import openai
import pytest

MESSAGES = [{"role": "user", "content": "Why is the sky blue?"}]


def client(address):
    return openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="unused", max_retries=0)


def test_chat(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            raw = await api.chat.completions.with_raw_response.create(model="demo", messages=MESSAGES)
        answer = raw.parse()
        choice = answer.choices[0]
        assert choice.message.content.startswith('This is a simulated answer from demo to "Why is the sky blue?".')
        assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
        assert raw.headers["x-served-by"] == "east/demo-0"

    play(scenario)


def test_streaming_equals_the_full_response(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            whole = await api.chat.completions.create(model="demo", messages=MESSAGES)
            options = {"include_usage": True}
            stream = await api.chat.completions.create(
                model="demo", messages=MESSAGES, stream=True, stream_options=options
            )
            chunks = [chunk async for chunk in stream]
        assert chunks[0].choices[0].delta.role == "assistant"
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage == whole.usage
        # One chunk a token, besides the role, the finish and the usage.
        assert len(chunks) == whole.usage.completion_tokens + 3

    play(scenario)


def test_the_streaming_helper(play):
    async def scenario(_engine, address):
        api = client(address)
        async with api, api.chat.completions.stream(model="demo", messages=MESSAGES) as stream:
            deltas = [event.delta async for event in stream if event.type == "content.delta"]
            final = await stream.get_final_completion()
        assert "".join(deltas) == final.choices[0].message.content
        assert final.choices[0].finish_reason == "stop"

    play(scenario)


def test_completions(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            whole = await api.completions.create(model="demo", prompt="Once upon", max_tokens=6)
            stream = await api.completions.create(model="demo", prompt="Once upon", max_tokens=6, stream=True)
            pieces = [chunk.choices[0].text async for chunk in stream]
        assert (whole.usage.completion_tokens, whole.choices[0].finish_reason) == (6, "length")
        assert "".join(pieces) == whole.choices[0].text

    play(scenario)


def test_models(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            assert [model.id async for model in api.models.list()] == ["demo", "demo-alias"]

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "kind", "code", "param"),
    [
        ({"model": "nope"}, openai.NotFoundError, "model_not_found", "model"),
        ({"messages": []}, openai.BadRequestError, "invalid_value", "messages"),
        ({"max_tokens": -1}, openai.BadRequestError, "invalid_value", "max_tokens"),
        ({"max_tokens": 99_999}, openai.BadRequestError, "context_length_exceeded", "messages"),
    ],
)
def test_errors_become_the_clients_exceptions(play, fields, kind, code, param):
    async def scenario(_engine, address):
        async with client(address) as api:
            with pytest.raises(kind) as caught:
                await api.chat.completions.create(**{"model": "demo", "messages": MESSAGES, **fields})
        assert (caught.value.code, caught.value.param) == (code, param)

    play(scenario)


def test_several_choices_and_prompts(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            chat = await api.chat.completions.create(model="demo", messages=MESSAGES, n=3)
            assert [choice.index for choice in chat.choices] == [0, 1, 2]
            assert len({choice.message.content for choice in chat.choices}) == 3
            stream = await api.chat.completions.create(model="demo", messages=MESSAGES, n=3, stream=True)
            texts = ["", "", ""]
            async for chunk in stream:
                texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
            assert texts == [choice.message.content for choice in chat.choices]
            text = await api.completions.create(model="demo", prompt=["one", "two three"], n=2, max_tokens=3)
            assert (len(text.choices), text.usage.prompt_tokens, text.usage.completion_tokens) == (4, 3, 12)

    play(scenario)


def test_a_stop_string_ends_the_answer(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            answer = await api.chat.completions.create(model="demo", messages=MESSAGES, stop=" answer")
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("This is a simulated", "stop")
        # The stop string was computed, too: "simulated" is two tokens, " answer" one.
        assert answer.usage.completion_tokens == 6

    play(scenario)


def test_cached_tokens(play):
    async def scenario(_engine, address):
        messages = [{"role": "user", "content": "a long question " * 40}]
        async with client(address) as api:
            usages = [(await api.chat.completions.create(model="demo", messages=messages)).usage for _ in range(2)]
        assert [usage.prompt_tokens_details.cached_tokens for usage in usages] == [0, 112]

    play(scenario)


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings(play, encoding):
    async def scenario(_engine, address):
        async with client(address) as api:
            found = await api.embeddings.create(
                model="demo", input=["hello there", "hello"], dimensions=64, encoding_format=encoding
            )
            plain = await api.embeddings.create(model="demo", input="hello there", dimensions=64)
        assert (len(found.data), found.usage.prompt_tokens) == (2, 3)
        assert encoding == "base64" or found.data[0].embedding == pytest.approx(plain.data[0].embedding)
        assert len(plain.data[0].embedding) == 64

    play(scenario)


def test_injected_failures_become_the_clients_exceptions(play):
    async def scenario(_engine, address):
        async with client(address) as api:
            for status, kind in ((429, openai.RateLimitError), (503, openai.InternalServerError)):
                with pytest.raises(kind):
                    await api.chat.completions.create(
                        model="demo", messages=MESSAGES, extra_headers={"x-sim-fault": f"error={status}"}
                    )

    play(scenario)


def test_the_same_seed_gives_the_same_response(play):
    said = []

    async def scenario(_engine, address):
        async with client(address) as api:
            answer = await api.chat.completions.create(model="demo", messages=MESSAGES)
            said.append((answer.id, answer.choices[0].message.content))

    for seed in (1, 1, 2):
        play(scenario, seed=seed)
    assert said[0] == said[1]
    assert said[0][0] != said[2][0]
