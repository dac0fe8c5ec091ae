import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.admission.scalars import normalize_integer, normalize_number, resolve_scalar

# What kubectl's reader (sigs.k8s.io/yaml 1.6 and the JSON decoder behind it) makes of each text.
AS_KUBECTL = {
    None: ("", "~", "null", "Null", "NULL"),
    True: ("true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON"),
    False: ("false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF"),
}
NUMBERS = {
    "0": 0, "1": 1, "-1": -1, "+1": 1, "010": 8, "-010": -8, "+010": 8, "0o10": 8, "0O10": 8, "08": 8, "09": 9,
    "018": 18, "0x1F": 31, "0X1f": 31, "-0x1F": -31, "0b101": 5, "0B101": 5, "-0b101": -5, "+0b11": 3, "1_000": 1000,
    "1__000": 1000, "1_": 1, "0_8": 8, "0x_1F": 31, "0b1_0": 2, "-_1": -1, "00": 0, "0777": 511, "20240102": 20240102,
    "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "9223372036854775808": 2.0**63,
    "18446744073709551615": 2.0**64, "18446744073709551616": 2.0**64, "-9223372036854775809": -(2.0**63),
    "123456789012345678901234567890": 1.2345678901234568e29, "1.0": 1, "1.10": 1.1, "1.": 1, ".5": 0.5, "-.5": -0.5,
    "+.5": 0.5, "1e3": 1000, "1E3": 1000, "1e+3": 1000, "1e-3": 0.001, "1e-400": 0, "1_0.5": 10.5, ".5_0": 0.5,
    ".1e2": 10, "1.5e3": 1500, "0.1": 0.1, "1e20": 1e20, "1e21": 1e21, "-0": 0, "-0.0": 0, "0.0": 0,
    "1_0e1_0": 100000000000, "00.5": 0.5, "01.5": 1.5, "-01.5": -1.5, "4611686018427387904.0": 4611686018427388000,
}  # fmt: skip
STRINGS = (
    "tRue", "oN", "0o8", "0b", "0x", "0b2", "_1", ".", "..", "1.2.3", "1e", "1e400", "-1e400", "._5", ".5_", "0x1p4",
    "inf", "nan", "Infinity", "NaN", "+inf", ".infinity", "12:30:00", "1:2", "190:20:30", "2024-01-02", "2024-1-2",
    "2024-01-02T03:04:05Z", "2024-01-02 03:04:05", "1Gi", "100m", "1e3Gi", "0xg", "1,000", "1e1e1", "--1", "+-1", "1-",
    "1 2", "=", "<<", "0xFFFFFFFFFFFFFFFFF", "\u0661", "\uff11", "1\u0661",
)  # fmt: skip


@pytest.mark.parametrize(("value", "text"), [(value, text) for value, texts in AS_KUBECTL.items() for text in texts])
def test_words(value, text):
    assert resolve_scalar(text) is value


@pytest.mark.parametrize(("text", "value"), NUMBERS.items())
def test_numbers(text, value):
    assert (resolve_scalar(text), type(resolve_scalar(text))) == (value, type(value))


@pytest.mark.parametrize("text", STRINGS)
def test_strings_similar_to_other_scalars(text):
    assert resolve_scalar(text) == text


@pytest.mark.parametrize("text", [".inf", ".Inf", ".INF", "+.inf", "-.INF", ".nan", ".NaN", ".NAN"])
def test_values_without_a_json_form_are_rejected(text):
    with pytest.raises(ValueError, match="is not a number that JSON can carry"):
        resolve_scalar(text)


def test_a_number_of_absurd_length_is_a_string():
    digits = "1" * 100_000
    assert resolve_scalar(digits) is digits


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_come_back(number):
    assert resolve_scalar(str(number)) == number
    assert normalize_integer(number) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back(number):
    found = resolve_scalar(repr(number))
    assert isinstance(found, int | float)
    assert math.isclose(found, number, rel_tol=1e-15)
    assert found == normalize_number(number)


@given(st.text(min_size=1))
def test_any_text_has_a_meaning(text):
    try:
        found = resolve_scalar(text)
    except ValueError:
        assert text.endswith(("inf", "Inf", "INF", "nan", "NaN", "NAN"))
    else:
        assert found is None or isinstance(found, bool | int | float) or found == text
