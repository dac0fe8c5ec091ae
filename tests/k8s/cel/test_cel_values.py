import pytest

from modelplane.k8s.cel import types as t
from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.values import (
    NONE,
    CelDuration,
    KeyedMap,
    Optional,
    Rope,
    TextMap,
    Timestamp,
    Uint,
    concatenated,
    contains_key,
    find,
    list_size,
    make_map,
    map_items,
    runtime_type,
    size_of,
)
from modelplane.k8s.quantity import parse_quantity
from modelplane.k8s.semver import parse_version


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, t.BOOL),
        (1, t.INT),
        (Uint(1), t.UINT),
        (1.0, t.DOUBLE),
        ("a", t.STRING),
        (b"a", t.BYTES),
        (None, t.NULL),
        ([], t.LIST),
        ((), t.LIST),
        (range(3), t.LIST),
        ({}, t.MAP),
        (KeyedMap([]), t.MAP),
        (CelDuration(1), t.DURATION),
        (Timestamp(1), t.TIMESTAMP),
        (NONE, t.OPTIONAL),
        (t.INT, t.TYPE),
        (parse_quantity("1"), t.QUANTITY),
        (parse_version("1.0.0"), t.SEMVER),
    ],
)
def test_runtime_type(value, found):
    assert runtime_type(value) is found


def test_numbers_find_each_other_in_a_map_and_true_is_not_one():
    numbers = KeyedMap([(1, "int"), (True, "bool"), (2.5, "double")])
    assert [find(numbers, key) for key in (1, 1.0, Uint(1), True, 2.5, 3, "1")] == [
        *[(True, "int")] * 3,
        (True, "bool"),
        (True, "double"),
        (False, None),
        (False, None),
    ]
    assert len(KeyedMap([(1, "a"), (Uint(1), "b")])) == 2


def test_maps_of_texts_and_others():
    assert make_map([("a", 1), ("a", 2)]) == TextMap(a=2)
    assert isinstance(make_map([("a", 1), (1, 2)]), KeyedMap)
    assert list(map_items(make_map([(2, "x")]))) == [(2, "x")]
    assert contains_key({"a": 1}, "a")
    assert not contains_key({"a": 1}, 1)


@pytest.mark.parametrize("key", [b"a", parse_version("1.0.0")])
def test_what_go_cannot_hash_ends_the_evaluation(key):
    for attempt in (
        lambda: make_map([(key, 1)]),
        lambda: find(TextMap(a=1), key),
        lambda: find(KeyedMap([(1, 2)]), key),
    ):
        with pytest.raises(EvaluationAborted):
            attempt()
    assert find(TextMap(), key) == (False, None)


def test_long_lists_are_joined_without_copying():
    short = concatenated([1], [2])
    assert short == [1, 2]
    long = concatenated(list(range(200)), list(range(200)))
    assert isinstance(long, Rope)
    assert list(long) == [*range(200), *range(200)]
    assert [long[index] for index in (0, 199, 200, 399)] == [0, 199, 0, 199]


def test_doubling_a_list_costs_nothing():
    items = [1] * 300
    for _ in range(100):
        items = concatenated(items, items)
    assert list_size(items) == 300 * 2**100
    assert items[300 * 2**100 - 1] == 1


def test_sizes():
    assert [size_of(value) for value in ("é日", b"ab", [1], {"a": 1}, KeyedMap([]), range(4), 1, None)] == [
        *(2, 2, 1, 1, 0, 4, None, None)
    ]


def test_timestamps_are_equal_whatever_their_offset():
    assert Timestamp(5, 3600) == Timestamp(5)
    assert len({Timestamp(5, 3600), Timestamp(5)}) == 1
    assert Optional(1) is not NONE
