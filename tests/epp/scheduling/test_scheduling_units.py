import msgspec
import pytest

from modelplane.epp.scheduling.units import Amount, Duration, convert, decode, encode


class Both(msgspec.Struct):
    wait: Duration = Duration(0)
    most: Amount = Amount(0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("0", 0.0),
        (0, 0.0),
        ("2us", 2e-6),
        ("3µs", 3e-6),
        ("4ns", 4e-9),
        (".5s", 0.5),
        ("2.s", 2.0),
    ],
)
def test_durations(text, seconds):
    assert convert({"wait": text}, Both) == Both(Duration(seconds))


@pytest.mark.parametrize(("text", "number"), [("1Gi", 2**30), (7, 7), ("2k", 2000), ("0", 0)])
def test_amounts(text, number):
    assert convert({"most": text}, Both) == Both(most=Amount(number))


@pytest.mark.parametrize("value", ["5", "-1s", "1 s", "soon", "", 5, True, None, "1s2"])
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(msgspec.ValidationError, match="is no duration"):
        convert({"wait": value}, Both)


@pytest.mark.parametrize("value", ["-1", "1.5", "many", None, [], "500m"])
def test_what_is_no_amount_is_refused(value):
    with pytest.raises(msgspec.ValidationError, match=r"no quantity|no whole number"):
        convert({"most": value}, Both)


def test_units_are_written_again():
    assert msgspec.to_builtins(Both(Duration(1.5), Amount(9)), enc_hook=encode) == {"wait": "1.5s", "most": 9}


def test_other_types_are_left_to_msgspec():
    """It names the type that a plugin's parameters may not have."""
    with pytest.raises(NotImplementedError, match="complex"):
        decode(complex, "1j")
    with pytest.raises(NotImplementedError, match="complex"):
        encode(1j)
