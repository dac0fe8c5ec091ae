import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.regex import PatternError, find, find_all, occurrences, pattern, search


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing"),
        ("a**", "repetition"),
        (r"(a)\1", "escape"),
        ("(?=a)", "invalid"),
        (r"a\C", r"\C is not supported"),
        (r"\Qa\E\C", r"\C is not supported"),
        ("(((a{100}){100}){100})", "repetition"),
    ],
)
def test_what_is_no_pattern(text, reason):
    with pytest.raises(PatternError, match="invalid regular expression") as caught:
        pattern(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", [r"\QC\C", r"\\C", r"[\\]C"])
def test_similar_to_a_single_byte(text):
    pattern(text)


@pytest.mark.parametrize(
    ("text", "subject", "expected"),
    [
        ("", "", True),
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^a.c$", "a\nc", False),
        ("(?s)^a.c$", "a\nc", True),
        (r"^\pL+$", "grün", True),
        ("^.$", "𝄞", True),
        (r"^\d$", "٣", False),
    ],
)
def test_search(text, subject, expected):
    assert [search(text, subject), search(text, subject)] == [expected, expected]


def test_a_pattern_that_is_made_while_evaluating_may_be_none():
    with pytest.raises(EvaluationError, match="invalid regular expression"):
        search("(", "a")


def test_few_answers_are_remembered():
    known = occurrences("^kept-[0-9]+$")
    subjects = [f"kept-{number}" for number in range(1_000)]
    assert all(known[subject] for subject in subjects)
    assert not known["kept-" + "x" * 100_000]
    assert len(known) < 100
    assert all(len(subject) < 1_000 for subject in known)


@pytest.mark.parametrize(("subject", "expected"), [("a1b22", "1"), ("ab", ""), ("", "")])
def test_find(subject, expected):
    assert find(subject, "[0-9]+") == expected


@pytest.mark.parametrize(
    ("subject", "text", "limit", "expected"),
    [
        ("a1b22", "[0-9]+", -1, ["1", "22"]),
        ("a1b22", "[0-9]+", 1, ["1"]),
        ("a1b22", "[0-9]+", 0, []),
        ("ab", "x*", -1, ["", "", ""]),
        ("xxab", "x*", -1, ["xx", "", ""]),
    ],
)
def test_find_all(subject, text, limit, expected):
    assert find_all(subject, text, limit) == expected
