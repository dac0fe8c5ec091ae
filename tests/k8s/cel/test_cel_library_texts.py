import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.lexer import string_literal
from modelplane.k8s.cel.library.texts import quoted, text_of
from modelplane.k8s.cel.types import STRING
from modelplane.k8s.cel.values import CelDuration, Optional, Timestamp, Uint


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_quoted_text_is_a_literal(text):
    assert string_literal(quoted(text), 0) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "true"),
        (-1, "-1"),
        (Uint(1), "1"),
        (1.5, "1.5"),
        (b"ab", "ab"),
        (CelDuration(1_500_000_000), "1.5s"),
        (Timestamp(0), "1970-01-01T00:00:00Z"),
        (STRING, "string"),
        (["a", 1.5, b"b"], '["a", 1.500000, b"b"]'),
        ([math.nan, math.inf], '["NaN", "+Inf"]'),
        ([CelDuration(0), Timestamp(0)], '[duration("0s"), timestamp("1970-01-01T00:00:00Z")]'),
        ({"b": 1, "a": [True]}, '{"a":[true], "b":1}'),
    ],
)
def test_what_is_printed(value, expected):
    assert text_of(value) == expected


@pytest.mark.parametrize("value", [Optional(1), [Optional(1)], b"\xff"])
def test_what_is_not(value):
    with pytest.raises(EvaluationError):
        text_of(value)
