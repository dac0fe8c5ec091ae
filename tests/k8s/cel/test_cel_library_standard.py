import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.standard import (
    add,
    divide,
    divide_floats,
    divide_ints,
    modulo_ints,
    multiply,
    negate,
    subtract,
)
from modelplane.k8s.cel.values import MAX_INT, MAX_UINT, MIN_INT, Uint

INTS = st.integers(MIN_INT, MAX_INT)


@given(INTS, INTS.filter(bool))
def test_a_quotient_and_its_remainder_make_the_dividend(left, right):
    if left == MIN_INT and right == -1:
        return
    quotient, remainder = divide_ints(left, right), modulo_ints(left, right)
    assert quotient * right + remainder == left
    assert abs(remainder) < abs(right)
    assert remainder == 0 or (remainder < 0) == (left < 0)


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        (add, (MAX_INT, 1), "overflow"),
        (subtract, (MIN_INT, 1), "overflow"),
        (multiply, (MIN_INT, -1), "overflow"),
        (negate, (MIN_INT,), "overflow"),
        (divide, (MIN_INT, -1), "overflow"),
        (modulo_ints, (MIN_INT, -1), "overflow"),
        (divide, (1, 0), "division by zero"),
        (modulo_ints, (1, 0), "modulus by zero"),
        (add, (Uint(MAX_UINT), Uint(1)), "overflow"),
        (subtract, (Uint(0), Uint(1)), "overflow"),
        (add, (1, Uint(1)), "no such overload"),
        (add, (1, 1.0), "no such overload"),
        (negate, (Uint(1),), "no such overload"),
    ],
)
def test_arithmetic_that_fails(function, args, reason):
    with pytest.raises(EvaluationError, match=reason):
        function(*args)


@pytest.mark.parametrize(
    ("left", "right", "expected"), [(1.0, 0.0, math.inf), (1.0, -0.0, -math.inf), (-2.0, 4.0, -0.5)]
)
def test_doubles_divide_by_anything(left, right, expected):
    assert divide_floats(left, right) == expected


@pytest.mark.parametrize(("left", "right"), [(0.0, 0.0), (math.nan, 0.0)])
def test_no_number(left, right):
    assert math.isnan(divide_floats(left, right))
