"""Lists and maps under construction: adding to one changes it in place."""

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.values import KeyedMap, is_list, list_size, make_map, map_items, no_overload


class GrowingList(list[object]):
    """A list that `+` extends instead of copying."""

    __slots__ = ()

    def cel_add(self, other: object) -> object:
        """The very list, with the elements of another behind its own."""
        if not is_list(other):
            raise no_overload("_+_", self, other)
        self.extend(list(other))
        return self


class GrowingMap(KeyedMap):
    """A map that takes new entries in place."""

    __slots__ = ()

    def insert(self, key: object, value: object) -> "GrowingMap":
        """The very map with one more entry."""
        if self.find(key)[0]:
            raise EvaluationError(f"insert failed: key {key} already exists")
        self.put(key, value)
        return self


def grown(value: object) -> object:
    """A value as an accumulator starts with it."""
    if is_list(value) and not list_size(value):
        return GrowingList()
    if isinstance(value, dict | KeyedMap) and not len(value):
        return GrowingMap([])
    return value


def settled(value: object) -> object:
    """A result that nothing can change any more."""
    if type(value) is GrowingList:
        return list(value)
    if type(value) is GrowingMap:
        return make_map(list(map_items(value)))
    return value
