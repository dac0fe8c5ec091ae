import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.growing import GrowingList, GrowingMap, grown, settled


def test_adding_changes_the_list_itself():
    items = GrowingList()
    assert items.cel_add([1]) is items
    assert items.cel_add(range(2)) == [1, 0, 1]
    with pytest.raises(EvaluationError):
        items.cel_add("x")


def test_inserting_refuses_a_key_that_is_there():
    entries = GrowingMap([])
    assert entries.insert("a", 1) is entries
    with pytest.raises(EvaluationError, match="already exists"):
        entries.insert("a", 2)


def test_only_empty_containers_grow():
    assert isinstance(grown([]), GrowingList)
    assert isinstance(grown({}), GrowingMap)
    assert grown([1]) == [1]
    assert grown("x") == "x"


def test_what_is_settled_does_not_change_any_more():
    items, entries = GrowingList([1]), GrowingMap([("a", 1)])
    assert type(settled(items)) is list
    assert settled(entries) == {"a": 1}
    assert settled(5) == 5
