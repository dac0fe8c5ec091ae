import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.engine import EngineConfig
from modelplane.sim.engine.errors import EngineApiError
from modelplane.sim.engine.requests import (
    TOKENS_PER_MESSAGE,
    TOKENS_TO_ANSWER,
    read_chat,
    read_embedding,
    read_text,
    read_tokenize,
)

PLAIN = EngineConfig(cluster="east", namespace="team-a", pod="demo-0", models=("demo",))
HELLO = [{"role": "user", "content": "hello there"}]


def chat(**fields):
    return json.dumps({"model": "demo", "messages": HELLO, **fields}).encode()


def text(**fields):
    return json.dumps({"model": "demo", "prompt": "hello there", **fields}).encode()


def answer_of(ask):
    (choice,) = ask.choices
    return choice.answer


def refusal(read, body, config):
    with pytest.raises(EngineApiError) as caught:
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
        (chat(n=0), "n", "invalid_value", "n: expected `int` >= 1."),
        (chat(n=129), "n", "invalid_value", "n: expected `int` <= 128."),
        (
            chat(logprobs=True),
            "logprobs",
            "unsupported_value",
            "logprobs: a simulated answer has no probabilities.",
        ),
        (
            chat(prompt_logprobs=1),
            "prompt_logprobs",
            "unsupported_value",
            "prompt_logprobs: a simulated answer has no probabilities.",
        ),
        *(
            (
                chat(tool_choice=choice),
                "tool_choice",
                "unsupported_value",
                "tool_choice: a simulated model calls no tools; use auto or none.",
            )
            for choice in ("required", {"type": "function", "function": {"name": "f"}}, 7)
        ),
        (
            chat(response_format={"type": "json_object"}),
            "response_format.type",
            "unsupported_value",
            "response_format.type: a simulated answer is plain text.",
        ),
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
        ({"prompt": [-1]}, "prompt[0]", "prompt[0]: expected `int` >= 0."),
        ({"prompt": [[]]}, "prompt", "prompt: a list of token ids has at least one."),
        *(
            ({"prompt": prompt}, "prompt", "prompt: give a text, token ids, or a list of either, not a mixture.")
            for prompt in ([], [1, "a"], ["a", 1], [[1], 1])
        ),
    ],
)
def test_a_bad_completion_request_names_its_field(config, fields, param, message):
    assert refusal(read_text, text(**fields), config()) == (400, param, "invalid_value", message)


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"echo": True}, "echo", "echo: a simulated engine does not repeat the prompt."),
        ({"suffix": "x"}, "suffix", "suffix: a simulated engine does not fill in."),
        ({"logprobs": 3}, "logprobs", "logprobs: a simulated answer has no probabilities."),
    ],
)
def test_what_cannot_be_simulated_is_refused(config, fields, param, message):
    assert refusal(read_text, text(**fields), config()) == (400, param, "unsupported_value", message)


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"prompt": ["a"] * 9, "n": 128}, "n", "n: a request may have 1024 choices, this one has 1152."),
        (
            {"n": 128, "ignore_eos": True, "max_tokens": 10_000},
            "max_tokens",
            "max_tokens: a request may generate 1048576 tokens in total, this one requests 1280000.",
        ),
    ],
)
def test_a_request_for_too_much_is_refused(config, fields, param, message):
    assert refusal(read_text, text(**fields), config()) == (400, param, "invalid_value", message)


def test_an_unknown_model_is_not_found(config):
    expected = (404, "model", "model_not_found", "The model `nope` does not exist.")
    assert refusal(read_chat, chat(model="nope"), config()) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (chat(), "messages: this model's context is 5 tokens; the request has 9 in the prompt and requests 1."),
        (
            chat(messages=[{"role": "user", "content": "x" * 90}]),
            "messages: this model's context is 5 tokens; the request has at least 10.",
        ),
    ],
)
def test_a_prompt_that_does_not_fit_the_context_is_refused(config, body, message):
    expected = (400, "messages", "context_length_exceeded", message)
    assert refusal(read_chat, body, config(max_model_len=5)) == expected


def test_more_tokens_than_the_context_are_rejected(config):
    message = "messages: this model's context is 50 tokens; the request has 9 in the prompt and requests 45."
    found = refusal(read_chat, chat(max_tokens=45), config(max_model_len=50))
    assert found == (400, "messages", "context_length_exceeded", message)


def test_a_chat_request_is_read(config):
    ask = read_chat(chat(stream=True, stream_options={"include_usage": True}, max_completion_tokens=3), config())
    assert (ask.model, ask.prompt_tokens, ask.stream, ask.include_usage) == (
        "demo",
        TOKENS_PER_MESSAGE + TOKENS_TO_ANSWER + 2,
        True,
        True,
    )
    assert (answer_of(ask).tokens, answer_of(ask).finish_reason) == (("This", " is", " a"), "length")


def test_every_served_name_is_answered_to(config):
    assert read_chat(chat(model="demo-alias"), config()).model == "demo-alias"


def test_text_parts_count_as_one_text(config):
    parts = [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}]
    whole = read_chat(chat(messages=[{"role": "user", "content": "hello\nthere"}]), config())
    assert read_chat(chat(messages=[{"role": "user", "content": parts}]), config()) == whole


def test_the_last_user_message_is_the_question(config):
    messages = [*HELLO, {"role": "assistant", "content": None}, {"role": "user", "content": "and now"}]
    answer = "".join(answer_of(read_chat(chat(messages=messages), config())).tokens)
    assert answer.startswith('This is a simulated answer from demo to "and now".')


def test_completions_default_to_sixteen_tokens(config):
    ask = read_text(text(), config())
    assert (ask.prompt_tokens, len(answer_of(ask).tokens), answer_of(ask).finish_reason) == (2, 16, "length")


def test_token_ids_count_as_they_are(config):
    assert read_text(text(prompt=[1, 2, 3]), config()).prompt_tokens == 3


def test_one_prompt_in_a_list_is_that_prompt(config):
    assert read_text(text(prompt=["hello there"]), config()) == read_text(text(), config())


def test_chat_answers_to_the_end_of_the_context(config):
    ask = read_chat(chat(ignore_eos=True), config(max_model_len=300))
    assert ask.prompt_tokens + len(answer_of(ask).tokens) == 300


def test_the_request_seed_changes_the_answer_and_repeats_it(config):
    answers = [answer_of(read_chat(chat(seed=seed), config())) for seed in (1, 1, *range(2, 10))]
    assert answers[0] == answers[1]
    assert len(set(answers)) > 2


def test_choices_of_one_prompt_differ_and_share_it(config):
    ask = read_chat(chat(n=3), config())
    assert len({choice.answer for choice in ask.choices}) == 3
    assert (len(ask.choices), ask.prompt_tokens, ask.per_prompt) == (3, len(ask.choices[0].prompt), 3)
    assert answer_of(read_chat(chat(), config())) == ask.choices[0].answer


def test_several_prompts_are_answered_one_by_one(config):
    ask = read_text(text(prompt=["hello there", [7, 8, 9]], n=2), config())
    assert [len(choice.prompt) for choice in ask.choices] == [2, 2, 3, 3]
    assert ask.prompt_tokens == 5
    assert ask.choices[:2] == read_text(text(n=2), config()).choices


def test_a_conversation_starts_with_its_earlier_turns(config):
    """The next turn's prompt has this one and its answer as a prefix: what the cache lives on."""
    first = read_chat(chat(), config())
    said = "".join(answer_of(first).tokens)
    messages = [*HELLO, {"role": "assistant", "content": said}, {"role": "user", "content": "and now"}]
    second = read_chat(chat(messages=messages), config()).choices[0].prompt
    known = [*first.choices[0].prompt, *first.choices[0].answer_ids()]
    assert second[: len(known)] == known


def test_tools_cost_tokens_and_come_first(config):
    tools = [{"type": "function", "function": {"name": "look_up"}}]
    plain, with_tools = (read_chat(chat(tools=given), config()) for given in (None, tools))
    assert with_tools.prompt_tokens > plain.prompt_tokens
    assert list(with_tools.choices[0].prompt)[-plain.prompt_tokens :] == plain.choices[0].prompt
    assert read_chat(chat(tools=tools, tool_choice="auto", response_format={"type": "text"}), config()) == with_tools


def test_adapters_are_answered_to_by_name(config):
    ask = read_chat(chat(model="tuned"), config(), {"tuned"})
    assert (ask.model, ask.adapter) == ("tuned", "tuned")
    assert read_chat(chat(), config(), {"tuned"}).adapter is None


def embedding(**fields):
    return json.dumps({"model": "demo", "input": "hello there", **fields}).encode()


@pytest.mark.parametrize(
    ("given", "lengths"),
    [("hello there", [2]), (["a", "b c"], [1, 2]), ([1, 2, 3], [3]), ([[1], [2, 3]], [1, 2]), ("", [1])],
)
def test_inputs_of_embeddings(config, given, lengths):
    ask = read_embedding(embedding(input=given), config())
    assert [len(ids) for ids in ask.inputs] == lengths
    assert (ask.size, ask.base64) == (1024, False)


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"dimensions": 1025}, "dimensions", "dimensions: this model has 1024."),
        ({"input": []}, "input", "input: expected `array` of length >= 1."),
        ({"input": ["a", 1]}, "input", "input: give a text, token ids, or a list of either, not a mixture."),
        ({"input": [1] * 11}, "input", "input: this model's context is 10 tokens; the request has 11."),
        ({"encoding_format": "hex"}, "encoding_format", "encoding_format: invalid enum value 'hex'."),
    ],
)
def test_a_bad_embedding_request_names_its_field(config, fields, param, message):
    found = refusal(read_embedding, embedding(**fields), config(max_model_len=10))
    assert (found[0], found[1], found[3]) == (400, param, message)


def test_tokenizing(config):
    asked = {"prompt": "hello there"}, {"messages": HELLO}
    lengths = [len(read_tokenize(json.dumps(body).encode(), config())) for body in asked]
    assert lengths == [2, 2 + TOKENS_PER_MESSAGE + TOKENS_TO_ANSWER]
    assert refusal(read_tokenize, b"{}", config())[3] == "prompt: give either prompt or messages."


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(body):
    for read in (read_chat, read_text, read_embedding, read_tokenize):
        with pytest.raises(EngineApiError):
            read(body, PLAIN)


@given(
    st.sampled_from(["model", "messages", "max_tokens", "stop", "stream", "stream_options", "seed", "n"]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text() | st.integers()),
)
def test_no_value_of_a_field_breaks_the_reader(field, value):
    body = json.dumps({"model": "demo", "messages": HELLO, field: value}).encode()
    try:
        read_chat(body, PLAIN)
    except EngineApiError as error:
        assert error.status in {400, 404}  # noqa: PT017  most values are refused and some are fine; both are right
