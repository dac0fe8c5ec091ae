"""`x in [constants]`: the list as a set, as upstream compiles it.

Members are found by hash, so a value that Go cannot hash ends the evaluation.
"""

from dataclasses import dataclass

from modelplane.k8s.cel.values import Uint, check_hashable

_PRIMITIVE = (str, bool, int, float)


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """The members by kind: a number is one of `integers` where it is whole and of `doubles` where it is a double."""

    strings: frozenset[str]
    bools: frozenset[bool]
    integers: frozenset[int]
    doubles: frozenset[float]

    def has(self, value: object) -> bool:
        """Whether a value equals one of the members."""
        kind = type(value)
        if kind is str:
            return value in self.strings
        if kind is bool:
            return value in self.bools
        if kind is int or kind is Uint:
            return value in self.integers
        if kind is float:
            return value in self.doubles
        check_hashable(value)
        return False


def constant_members(items: object) -> Membership | None:
    """The set of a list of constants, or None where it has to stay a list."""
    if not isinstance(items, list) or not all(isinstance(item, _PRIMITIVE) for item in items):
        return None
    numbers = [item for item in items if not isinstance(item, str | bool)]
    whole = [item for item in numbers if isinstance(item, int) or (isinstance(item, float) and item.is_integer())]
    return Membership(
        frozenset([item for item in items if isinstance(item, str)]),
        frozenset([item for item in items if isinstance(item, bool)]),
        frozenset([int(item) for item in whole]),
        frozenset([float(item) for item in numbers]),
    )
