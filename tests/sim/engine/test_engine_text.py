from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.engine.text import (
    LONGEST_TOKEN,
    VOCABULARY,
    GeneratedText,
    finish,
    prompt_digest,
    split_tokens,
    token_id,
    token_ids,
    write_answer,
)


def say(question: str = "hi", *, seed: int = 0, endless: bool = False):
    digest = prompt_digest(seed=seed, request_seed=None, model="demo", prompt=question)
    return write_answer(digest=digest, model="demo", question=question, endless=endless)


@given(st.text())
def test_tokens_lose_nothing_and_have_a_bounded_length(text):
    tokens = split_tokens(text)
    assert "".join(tokens) == text
    assert all(1 <= len(token) <= LONGEST_TOKEN for token in tokens)


@given(st.text(max_size=200), st.integers(0, 3))
def test_an_answer_is_short_readable_and_the_same_every_time(question, seed):
    answer = finish(say(question, seed=seed), max_tokens=1_000, stops=[])
    assert answer == finish(say(question, seed=seed), max_tokens=1_000, stops=[])
    assert answer.finish_reason == "stop"
    assert len(answer.tokens) < 250
    text = "".join(answer.tokens)
    assert text.startswith("This is a simulated answer from demo")
    assert text.endswith(".")


def test_seed_and_prompt_both_matter():
    texts = {"".join(say(question, seed=seed)) for question in ("one", "two") for seed in range(8)}
    assert len(texts) > 8


def test_a_long_question_is_quoted_in_part():
    text = "".join(say("a b c d e f g h i " + "x" * 100))
    assert text.startswith('This is a simulated answer from demo to "a b c d e f g h ...". ')


def test_no_sentence_comes_twice_before_all_were_used():
    sentences = "".join(islice(say(endless=True), 150)).split(". ")
    assert len(sentences) == len(set(sentences))


@given(st.integers(1, 400))
def test_an_endless_answer_ends_at_its_limit(limit):
    answer = finish(say(endless=True), max_tokens=limit, stops=[])
    assert (len(answer.tokens), answer.finish_reason) == (limit, "length")


@pytest.mark.parametrize(
    ("limit", "stops", "expected"),
    [
        (9, [], GeneratedText(("one", " two", " three"), "stop", ("one", " two", " three"))),
        (3, [], GeneratedText(("one", " two", " three"), "stop", ("one", " two", " three"))),
        (2, [], GeneratedText(("one", " two"), "length", ("one", " two"))),
        # What it took to see the stop string was computed, although it is not sent.
        (9, ["wo"], GeneratedText(("one", " t"), "stop", ("one", " two"))),
        (9, ["o th"], GeneratedText(("one", " tw"), "stop", ("one", " two", " three"))),
        (9, ["three", "two"], GeneratedText(("one", " "), "stop", ("one", " two"))),
        (9, ["one"], GeneratedText((), "stop", ("one",))),
        (2, ["three"], GeneratedText(("one", " two"), "length", ("one", " two"))),
        (9, [""], GeneratedText(("one", " two", " three"), "stop", ("one", " two", " three"))),
    ],
)
def test_output_is_cut_as_the_request_requires(limit, stops, expected):
    assert finish(iter(("one", " two", " three")), max_tokens=limit, stops=stops) == expected


@given(st.text())
def test_ids_are_those_of_the_vocabulary_one_a_token(text):
    ids = token_ids(text)
    assert len(ids) == len(split_tokens(text))
    assert all(0 <= number < VOCABULARY for number in ids)


def test_ids_are_the_same_in_every_process():
    assert token_ids("hello there") == [token_id("hello"), token_id(" there")] == [52_870, 10_782]
