"""Mutable lists and maps, as accumulators of comprehensions start with them."""

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import KeyedMap, is_list, list_size, make_map, map_items, no_overload


class MutableList(list[object]):
    """A list that `+` extends instead of copying."""

    __slots__ = ()

    def cel_add(self, other: object) -> object:
        """The same list, extended by the elements of another."""
        if not is_list(other):
            raise no_overload("_+_", self, other)
        self.extend(list(other))
        return self


class MutableMap(KeyedMap):
    """A map that takes new entries in place."""

    __slots__ = ()

    def insert(self, key: object, value: object) -> "MutableMap":
        """The same map with one more entry."""
        if self.find(key)[0]:
            raise EvaluationError(f"insert failed: key {key} already exists")
        self.put(key, value)
        return self


def to_mutable(value: object) -> object:
    """The mutable form of an empty list or map; any other value as it is."""
    if is_list(value) and not list_size(value):
        return MutableList()
    if isinstance(value, dict | KeyedMap) and not len(value):
        return MutableMap([])
    return value


def to_immutable(value: object) -> object:
    """The immutable form of a result."""
    if type(value) is MutableList:
        return list(value)
    if type(value) is MutableMap:
        return make_map(list(map_items(value)))
    return value
