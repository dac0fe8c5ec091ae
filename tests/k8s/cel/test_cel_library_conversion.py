import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.conversion import bytes_to_string, double_to_string, string_to_int
from modelplane.k8s.cel.values import MAX_INT, MIN_INT


@given(st.integers(MIN_INT, MAX_INT))
def test_a_number_survives_its_text(number):
    assert string_to_int(str(number)) == number


@pytest.mark.parametrize(
    "text", ["", " 1", "1_0", "0x1", "1.0", "9223372036854775808", "-9223372036854775809", "\u0661"]
)
def test_texts_that_are_no_int(text):
    with pytest.raises(EvaluationError):
        string_to_int(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_its_text(number):
    assert float(double_to_string(number)) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (999999.0, "999999"),
        (1e20, "1e+20"),
        (1e-4, "0.0001"),
        (1e-5, "1e-05"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_as_texts(number, text):
    assert double_to_string(number) == text


def test_bytes_that_are_no_text():
    with pytest.raises(EvaluationError, match="UTF-8"):
        bytes_to_string(b"\xff")
