import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.engine import EngineConfig
from modelplane.engine.errors import ApiError
from modelplane.engine.requests import TOKENS_PER_MESSAGE, read_chat, read_text

PLAIN = EngineConfig(cluster="east", namespace="team-a", pod="demo-0", models=("demo",))
HELLO = [{"role": "user", "content": "hello there"}]


def chat(**fields):
    return json.dumps({"model": "demo", "messages": HELLO, **fields}).encode()


def text(**fields):
    return json.dumps({"model": "demo", "prompt": "hello there", **fields}).encode()


def refusal(read, body, config):
    with pytest.raises(ApiError) as caught:
        read(body, config)
    error = caught.value
    return error.status, error.param, error.code, error.message


@pytest.mark.parametrize(
    ("body", "param", "code", "message"),
    [
        (b"", None, "invalid_json", "The body is not valid JSON: Input data was truncated."),
        (b"{", None, "invalid_json", "The body is not valid JSON: Input data was truncated."),
        (b"\xff", None, "invalid_json", "The body is not valid JSON: invalid character (byte 0)."),
        (b'{"a":' + b"[" * 100_000, None, "invalid_json", "The body is not valid JSON: it is nested too deeply."),
        (b"[]", None, "invalid_value", "the body: expected `object`, got `array`."),
        (b"{}", "model", "missing_required_parameter", "model: this field is required."),
        (b'{"model":"demo"}', "messages", "missing_required_parameter", "messages: this field is required."),
        (chat(model=7), "model", "invalid_value", "model: expected `str`, got `int`."),
        (chat(messages=[]), "messages", "invalid_value", "messages: expected `array` of length >= 1."),
        (chat(messages="hi"), "messages", "invalid_value", "messages: expected `array`, got `str`."),
        (
            chat(messages=[{}]),
            "messages[0].role",
            "missing_required_parameter",
            "messages[0].role: this field is required.",
        ),
        (
            chat(messages=[{"role": "robot"}]),
            "messages[0].role",
            "invalid_value",
            "messages[0].role: invalid enum value 'robot'.",
        ),
        (
            chat(messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
            "messages[0].content[0].type",
            "invalid_value",
            "messages[0].content[0].type: invalid value 'image_url'.",
        ),
        (chat(max_tokens="3"), "max_tokens", "invalid_value", "max_tokens: expected `int | null`, got `str`."),
        (chat(max_tokens=0), "max_tokens", "invalid_value", "max_tokens: expected `int` >= 1."),
        (chat(temperature=3), "temperature", "invalid_value", "temperature: expected `float` <= 2.0."),
        (chat(stream="yes"), "stream", "invalid_value", "stream: expected `bool | null`, got `str`."),
        (chat(n=2), "n", "invalid_value", "n: a simulated engine gives one choice."),
        (
            chat(stream_options={"include_usage": True}),
            "stream_options",
            "invalid_value",
            "stream_options: only allowed together with stream: true.",
        ),
    ],
)
def test_a_bad_chat_request_names_its_field(config, body, param, code, message):
    assert refusal(read_chat, body, config()) == (400, param, code, message)


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"prompt": 7}, "prompt", "prompt: expected `str | array`, got `int`."),
        ({"echo": True}, "echo", "echo: a simulated engine does not repeat the prompt."),
        *(
            (
                {"prompt": prompt},
                "prompt",
                "prompt: a simulated engine takes one text, or one list of token ids, a request.",
            )
            for prompt in ([], ["a", "b"], ["a", 1])
        ),
    ],
)
def test_a_bad_completion_request_names_its_field(config, fields, param, message):
    assert refusal(read_text, text(**fields), config()) == (400, param, "invalid_value", message)


def test_an_unknown_model_is_not_found(config):
    expected = (404, "model", "model_not_found", "The model `nope` does not exist.")
    assert refusal(read_chat, chat(model="nope"), config()) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (chat(), "messages: this model's context is 5 tokens; the request has 6 in the prompt and asks for 1."),
        (
            chat(messages=[{"role": "user", "content": "x" * 90}]),
            "messages: this model's context is 5 tokens; the request has at least 10.",
        ),
    ],
)
def test_a_prompt_that_does_not_fit_the_context_is_refused(config, body, message):
    expected = (400, "messages", "context_length_exceeded", message)
    assert refusal(read_chat, body, config(max_model_len=5)) == expected


def test_asking_for_more_than_the_context_leaves_is_refused(config):
    message = "messages: this model's context is 50 tokens; the request has 6 in the prompt and asks for 45."
    found = refusal(read_chat, chat(max_tokens=45), config(max_model_len=50))
    assert found == (400, "messages", "context_length_exceeded", message)


def test_a_chat_request_is_read(config):
    ask = read_chat(chat(stream=True, stream_options={"include_usage": True}, max_completion_tokens=3), config())
    assert (ask.model, ask.prompt_tokens, ask.stream, ask.include_usage) == ("demo", TOKENS_PER_MESSAGE + 2, True, True)
    assert (ask.answer.tokens, ask.answer.finish_reason) == (("This", " is", " a"), "length")


def test_every_served_name_is_answered_to(config):
    assert read_chat(chat(model="demo-alias"), config()).model == "demo-alias"


def test_text_parts_count_as_one_text(config):
    parts = [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}]
    whole = read_chat(chat(messages=[{"role": "user", "content": "hello\nthere"}]), config())
    assert read_chat(chat(messages=[{"role": "user", "content": parts}]), config()) == whole


def test_the_last_user_message_is_the_question(config):
    messages = [*HELLO, {"role": "assistant", "content": None}, {"role": "user", "content": "and now"}]
    answer = "".join(read_chat(chat(messages=messages), config()).answer.tokens)
    assert answer.startswith('This is a simulated answer from demo to "and now".')


def test_completions_default_to_sixteen_tokens(config):
    ask = read_text(text(), config())
    assert (ask.prompt_tokens, len(ask.answer.tokens), ask.answer.finish_reason) == (2, 16, "length")


def test_token_ids_count_as_they_are(config):
    assert read_text(text(prompt=[1, 2, 3]), config()).prompt_tokens == 3


def test_one_prompt_in_a_list_is_that_prompt(config):
    assert read_text(text(prompt=["hello there"]), config()) == read_text(text(), config())


def test_chat_answers_to_the_end_of_the_context(config):
    ask = read_chat(chat(ignore_eos=True), config(max_model_len=300))
    assert ask.prompt_tokens + len(ask.answer.tokens) == 300


def test_the_request_seed_changes_the_answer_and_repeats_it(config):
    answers = [read_chat(chat(seed=seed), config()).answer for seed in (1, 1, *range(2, 10))]
    assert answers[0] == answers[1]
    assert len(set(answers)) > 2


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(body):
    for read in (read_chat, read_text):
        with pytest.raises(ApiError):
            read(body, PLAIN)


@given(
    st.sampled_from(["model", "messages", "max_tokens", "stop", "stream", "stream_options", "seed", "n"]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text() | st.integers()),
)
def test_no_value_of_a_field_breaks_the_reader(field, value):
    body = json.dumps({"model": "demo", "messages": HELLO, field: value}).encode()
    try:
        read_chat(body, PLAIN)
    except ApiError as error:
        assert error.status in {400, 404}  # noqa: PT017  most values are refused and some are fine; both are right
