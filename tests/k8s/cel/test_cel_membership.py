import pytest

from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.membership import constant_members
from modelplane.k8s.cel.values import Uint
from modelplane.k8s.semver import parse_version


@pytest.mark.parametrize(
    ("items", "value", "expected"),
    [
        (["a", "b"], "a", True),
        (["a"], 1, False),
        ([1, 2], 2.0, True),
        ([1, 2], Uint(2), True),
        ([1, 2], True, False),
        ([1.0, 2.5], 1, True),
        ([2.5], 2, False),
        ([True], True, True),
        ([True], 1, False),
        ([9007199254740993], 9007199254740992.0, True),
        (["a"], None, False),
        (["a"], [1], False),
    ],
)
def test_members(items, value, expected):
    assert constant_members(items).has(value) is expected


@pytest.mark.parametrize("items", [[b"a"], [[1]], [None], "text"])
def test_lists_that_stay_lists(items):
    assert constant_members(items) is None


@pytest.mark.parametrize("value", [b"a", parse_version("1.0.0")])
def test_what_go_cannot_hash_ends_the_evaluation(value):
    with pytest.raises(EvaluationAborted):
        constant_members(["a"]).has(value)
