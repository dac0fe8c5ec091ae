import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.mutable_values import MutableList, MutableMap, to_immutable, to_mutable


def test_adding_changes_the_list_itself():
    items = MutableList()
    assert items.cel_add([1]) is items
    assert items.cel_add(range(2)) == [1, 0, 1]
    with pytest.raises(EvaluationError):
        items.cel_add("x")


def test_inserting_refuses_a_key_that_is_there():
    entries = MutableMap([])
    assert entries.insert("a", 1) is entries
    with pytest.raises(EvaluationError, match="already exists"):
        entries.insert("a", 2)


def test_only_empty_containers_grow():
    assert isinstance(to_mutable([]), MutableList)
    assert isinstance(to_mutable({}), MutableMap)
    assert to_mutable([1]) == [1]
    assert to_mutable("x") == "x"


def test_what_is_settled_does_not_change_any_more():
    items, entries = MutableList([1]), MutableMap([("a", 1)])
    assert type(to_immutable(items)) is list
    assert to_immutable(entries) == {"a": 1}
    assert to_immutable(5) == 5
