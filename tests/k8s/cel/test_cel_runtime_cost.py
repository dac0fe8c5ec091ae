import pytest

from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.library.formats import FORMATS
from modelplane.k8s.cel.library.network import to_cidr, to_ip
from modelplane.k8s.cel.runtime_cost import FAILED, cost_function, equality_cost, text_cost
from modelplane.k8s.cel.values import NONE, Optional

_TEXT = "x" * 25


@pytest.mark.parametrize(
    ("function", "overload", "args", "result", "cost"),
    [
        ("startsWith", "starts_with_string", (_TEXT, "x"), True, 3),
        ("matches", "matches_string", (_TEXT, "x" * 9), True, 9),
        ("contains", "contains_string", (_TEXT, "x" * 11), True, 6),
        ("_+_", "add_string", (_TEXT, _TEXT), "", 5),
        ("@in", "in_list", ("x", [1, 2, 3]), True, 3),
        ("_<_", "less_string", (_TEXT, "x"), True, 1),
        ("lists.range", "lists_range", (5,), [0] * 5, 16),
        ("sets.equivalent", "list_sets_equivalent_list", ([1, 2], [3]), True, 5),
        ("distinct", "list_distinct", (["a", "b"],), ["a"], 19),
        ("sort", "list_int_sort", ([2, 1],), [1, 2], 19),
        ("flatten", "list_flatten_int", ([1, 2], 3), [], 17),
        ("flatten", "list_flatten_int", ([1], -1), [], 10),
        ("sum", "list_int_sum_int", ([1, 2, 3],), 6, 3),
        ("sum", "list_int_sum_int", (range(1_000),), 6, 1_000),
        ("max", "list_string_max_string", (["a" * 10, "b" * 25],), "b", 3),
        ("join", "list_join", (["a"],), "x" * 11, 3),
        ("split", "string_split_string", (_TEXT, ","), [], 5),
        ("find", "string_find_string", (_TEXT, "x" * 5), "", 6),
        ("quantity", "string_to_quantity", ("4Gi",), None, 1),
        ("ip", "string_to_ip", ("10.0.0.1",), None, 1),
        ("ip", "cidr_ip", (to_cidr("10.0.0.0/8"),), None, 1),
        ("containsIP", "cidr_contains_ip_ip", (to_cidr("10.0.0.0/8"), to_ip("10.0.0.1")), True, 1),
        ("containsIP", "cidr_contains_ip_string", (to_cidr("10.0.0.0/8"), "10.0.0.1"), True, 2),
        ("containsCIDR", "cidr_contains_cidr", (to_cidr("fe80::/64"), to_cidr("fe80::/64")), True, 4),
        ("validate", "format-validate", (FORMATS["dns1123Label"], "abc"), NONE, 8),
    ],
)
def test_price(function, overload, args, result, cost):
    price = cost_function(function, overload)
    assert price is not None
    assert price(args, result) == cost


@pytest.mark.parametrize(
    ("function", "overload"), [("_+_", ""), ("_+_", "add_int64"), ("major", "semver_major"), ("size", "")]
)
def test_calls_of_one_unit_have_no_price(function, overload):
    assert cost_function(function, overload) is None


def test_equality_costs_what_the_shorter_side_does():
    assert equality_cost(_TEXT, "x") == 1
    assert equality_cost(_TEXT, _TEXT) == 3
    assert equality_cost(1, "") == 0
    assert equality_cost(Optional(_TEXT), Optional(_TEXT)) == 3
    assert text_cost(FAILED) == 1


@pytest.mark.parametrize(("function", "overload"), [("distinct", "list_distinct"), ("flatten", "list_flatten_int")])
def test_some_prices_cannot_cope_with_errors(function, overload):
    with pytest.raises(EvaluationAborted):
        cost_function(function, overload)((FAILED, FAILED), FAILED)
