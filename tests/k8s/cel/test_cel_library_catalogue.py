import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.catalogue import MAX_INCLUDES, base_functions, includes, list_attribute_functions


def test_every_overload_has_one_name():
    found = [each.id for function in base_functions().values() for each in function.overloads]
    assert len(found) == len(set(found))


def test_only_list_attributes_bring_includes():
    assert set(list_attribute_functions()) - set(base_functions()) == {"includes"}


@pytest.mark.parametrize(
    ("target", "wanted", "expected"), [([1, 2], 2.0, True), ([1], "1", False), ("a", "a", True), ("a", ["a"], False)]
)
def test_includes(target, wanted, expected):
    assert includes(target, wanted) is expected


def test_includes_reads_so_many_elements():
    items = list(range(MAX_INCLUDES + 1))
    assert includes(items, 0)
    with pytest.raises(EvaluationError, match="longer than"):
        includes(items, MAX_INCLUDES)
