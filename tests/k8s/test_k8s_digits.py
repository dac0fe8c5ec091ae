import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s._digits import count_digits, format_digits, parse_digits


@pytest.mark.parametrize(
    ("number", "digits"),
    [(0, 1), (9, 1), (10, 2), (99, 2), (100, 3), (-100, 3), (10**15, 16)],
)
def test_count_digits(number, digits):
    assert count_digits(number) == digits


@pytest.mark.parametrize("digits", [1_000, 4_999, 5_000])
def test_count_digits_around_powers_of_ten(digits):
    assert (count_digits(10**digits - 1), count_digits(10**digits)) == (digits, digits + 1)


@pytest.mark.parametrize("length", [1, 3_999, 4_000, 4_001, 4_300, 4_301, 8_000, 10_240])
def test_texts_longer_than_the_interpreter_converts(length):
    text = ("1234567890" * 1_100)[:length]
    assert format_digits(parse_digits(text)) == text
    assert count_digits(parse_digits(text)) == length


def test_leading_zeros_and_nothing_at_all():
    assert parse_digits("") == 0
    assert parse_digits("0" * 9_000 + "7") == 7


@given(st.integers(min_value=-(10**60), max_value=10**60))
def test_format_is_what_python_prints(number):
    assert format_digits(number) == str(number)


@given(st.integers(min_value=0, max_value=10**60))
def test_count_is_the_length_of_the_text(number):
    assert count_digits(number) == len(str(number))


@given(st.integers(min_value=1, max_value=9), st.integers(min_value=0, max_value=9_000))
def test_blocks_keep_their_zeros(digit, zeros):
    number = digit * 10**zeros
    assert format_digits(number) == str(digit) + "0" * zeros
    assert format_digits(-number) == "-" + str(digit) + "0" * zeros
