import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.library.strings import (
    char_at,
    index_of,
    join,
    last_index_of,
    lower_ascii,
    quote,
    replace,
    split,
    substring,
    trim,
    upper_ascii,
)

TEXTS = st.text(alphabet="abA é日,", max_size=12)


@given(TEXTS, TEXTS)
def test_parts_make_the_text_again(text, separator):
    assert join(split(text, separator), separator) == text


@given(TEXTS, TEXTS.filter(bool), st.integers(1, 5))
def test_few_parts_make_the_text_too(text, separator, count):
    parts = split(text, separator, count)
    assert len(parts) <= count
    assert join(parts, separator) == text


@given(TEXTS, TEXTS)
def test_positions(text, part):
    first, last = index_of(text, part), last_index_of(text, part)
    assert (first >= 0) == (last >= 0) == (part in text)
    if first >= 0:
        assert first <= last
        assert substring(text, first, first + len(part)) == substring(text, last, last + len(part)) == part


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: char_at("é日", 1), "日"),
        (lambda: char_at("a", 1), ""),
        (lambda: index_of("abcabc", "a", 1), 3),
        (lambda: index_of("a", "a", 9), -1),
        (lambda: index_of("abc", "", 2), 2),
        (lambda: last_index_of("abcabc", "abc", 2), 0),
        (lambda: last_index_of("abc", ""), 3),
        (lambda: lower_ascii("AÉz"), "aÉz"),
        (lambda: upper_ascii("aéZ"), "AéZ"),
        (lambda: replace("aaa", "a", "b", 2), "bba"),
        (lambda: replace("ab", "", "-"), "-a-b-"),
        (lambda: split("a,b", ",", 0), []),
        (lambda: split("", ","), [""]),
        (lambda: split("", ""), []),
        (lambda: trim("\t\n\u2003a\u0085 "), "a"),
        (lambda: trim("\u200ba"), "\u200ba"),
        (lambda: quote('a"\\\n'), r'"a\"\\\n"'),
    ],
)
def test_texts(call, expected):
    assert call() == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda: char_at("a", 2),
        lambda: char_at("a", -1),
        lambda: index_of("a", "a", -1),
        lambda: substring("abc", 2, 1),
        lambda: substring("abc", 4),
        lambda: substring("abc", 0, 4),
        lambda: join(["a", 1]),
    ],
)
def test_calls_that_fail(call):
    with pytest.raises(EvaluationError):
        call()


@pytest.mark.parametrize(
    "call", [lambda: replace("a" * 100_000, "a", "b" * 10_000), lambda: join(["a" * 100_000] * 1_000, "-")]
)
def test_texts_beyond_all_measure_end_the_evaluation(call):
    with pytest.raises(EvaluationAborted, match="too large"):
        call()
