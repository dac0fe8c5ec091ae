import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.equality import compare, contains, equal, is_comparable, same_value, value_equal
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import NONE, CelDuration, KeyedMap, Optional, Timestamp, Uint
from modelplane.k8s.mutable_quantity import MutableQuantity
from modelplane.k8s.quantity import parse_quantity
from modelplane.k8s.semver import parse_version

_VERSION = parse_version("1.2.3")
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        (1, Uint(1), True),
        (True, 1, False),
        (1, "1", False),
        (None, None, True),
        (None, 1, False),
        (_VERSION, None, False),
        ("1.2.3", _VERSION, False),
        (_VERSION, parse_version("1.2.3+x"), True),
        (9007199254740993, 9007199254740992.0, True),
        (float("nan"), float("nan"), False),
        ([1, 2.0], (1.0, 2), True),
        ([1], [1, 2], False),
        ([_VERSION], ["x"], True),
        ({"a": 1}, KeyedMap([("a", 1.0)]), True),
        ({"a": 1}, {"b": 1}, False),
        (NONE, NONE, True),
        (Optional(1), Optional(1.0), True),
        (Optional(None), NONE, False),
        (CelDuration(1), CelDuration(1), True),
        (CelDuration(1), 1, False),
        (Timestamp(1, 60), Timestamp(1), True),
        (parse_quantity("1"), parse_quantity("1000m"), True),
    ],
)
def test_equal(left, right, expected):
    assert equal(left, right) is expected


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (_VERSION, "1.2.3"),
        (_VERSION, 1),
        (parse_quantity("1"), "1"),
        (MutableQuantity(parse_quantity("1")), MutableQuantity(parse_quantity("1"), derived=True)),
    ],
)
def test_values_of_kubernetes_refuse_other_types_on_their_right(left, right):
    with pytest.raises(EvaluationError):
        equal(left, right)
    assert not same_value(left, right)


def test_a_derived_quantity_may_stand_on_the_left():
    derived, plain = MutableQuantity(parse_quantity("2"), derived=True), MutableQuantity(parse_quantity("2"))
    assert value_equal(derived, plain)


@given(_PLAIN)
def test_plain_data_equals_itself(value):
    assert equal(value, value)


@given(_PLAIN, _PLAIN)
def test_equality_of_plain_data_is_symmetric(left, right):
    assert equal(left, right) is equal(right, left)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 2.5, -1),
        (Uint(3), 2, 1),
        (1.0, 1, 0),
        ("a", "b", -1),
        (b"b", b"a", 1),
        (False, True, -1),
        (CelDuration(2), CelDuration(1), 1),
        (Timestamp(1), Timestamp(1), 0),
    ],
)
def test_compare(left, right, expected):
    assert compare(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, "a"), ("a", 1), (_VERSION, _VERSION), ([], []), (None, None), (1.0, float("nan")), (True, 1)],
)
def test_what_has_no_order(left, right):
    with pytest.raises(EvaluationError):
        compare(left, right)


def test_membership():
    assert contains([1, "a"], 1.0)
    assert not contains([_VERSION], "1.2.3")
    assert contains({"a": 1}, "a")
    with pytest.raises(EvaluationError):
        contains("abc", "a")
    assert [is_comparable(value) for value in (1, "a", True, [], None)] == [True, True, True, False, False]
