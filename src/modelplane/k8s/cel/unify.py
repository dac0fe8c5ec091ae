"""Assignability and type variables: the part of the checker that decides whether one type may stand for another.

A variable takes the first type it meets and widens to the more general one later. An attempt that fails leaves no
trace: bindings made on the way are undone.
"""

from modelplane.k8s.cel.types import DYN, NULL, Kind, Type, rebuilt

_COMPOUND = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})
_PARAMETRIC = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP, Kind.TYPE})
_NULLABLE = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.DURATION, Kind.TIMESTAMP})


class Bindings:
    """What the type variables of one expression stand for."""

    __slots__ = ("_trail", "_types")

    def __init__(self) -> None:
        self._types: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []

    def assignable(self, left: Type, right: Type) -> bool:
        """Whether `left` may be used for `right`; what that implies for variables is kept."""
        return left is right or self.all_assignable((left,), (right,))

    def all_assignable(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """Whether the types may be used pairwise, all of them or none."""
        mark = len(self._trail)
        if self._pairs(left, right):
            return True
        while len(self._trail) > mark:
            variable, former = self._trail.pop()
            if former is None:
                del self._types[variable]
            else:
                self._types[variable] = former
        return False

    def substitute(self, pattern: Type) -> Type:
        """`pattern` with every bound variable replaced."""
        if not pattern.generic:
            return pattern
        if pattern.kind is Kind.PARAM:
            bound = self._types.get(pattern)
            return pattern if bound is None else self.substitute(bound)
        return rebuilt(pattern, tuple([self.substitute(param) for param in pattern.params]))

    def settle(self, pattern: Type) -> Type:
        """`pattern` with every variable replaced, the free ones by `dyn`."""
        if not pattern.generic:
            return pattern
        if pattern.kind is Kind.PARAM:
            bound = self._types.get(pattern)
            return DYN if bound is None else self.settle(bound)
        return rebuilt(pattern, tuple([self.settle(param) for param in pattern.params]))

    def _pairs(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        if len(left) != len(right):
            return False
        for one, other in zip(left, right, strict=True):
            if one is not other and not self._assign(one, other):
                return False
        return True

    def _assign(self, left: Type, right: Type) -> bool:
        if right.kind is Kind.PARAM:
            valid, bound = self._bind(left, right)
            if valid or bound:
                return valid
        if left.kind is Kind.PARAM:
            return self._bind(right, left)[0]
        if left.is_dynamic or right.is_dynamic:
            return True
        if left is NULL:
            return right.kind in _NULLABLE
        if right is NULL:
            return left.kind in _NULLABLE
        if left.kind is Kind.TYPE:
            return right.kind is Kind.TYPE
        if left.kind in _COMPOUND:
            return left.kind is right.kind and left.name == right.name and self._pairs(left.params, right.params)
        return left is right

    def _bind(self, candidate: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the variable may stand for the candidate, and whether it stood for something before."""
        if candidate is variable:
            return True, True
        bound = self._types.get(variable)
        if bound is None:
            if self._occurs(variable, candidate):
                return False, False
            self._set(variable, candidate)
            return True, False
        if candidate is bound:
            return True, True
        if not self._pairs((candidate,), (bound,)):
            return False, True
        general = candidate if less_specific(candidate, bound) else bound
        if not self._occurs(variable, general):
            self._set(variable, general)
        return True, True

    def _set(self, variable: Type, bound: Type) -> None:
        self._trail.append((variable, self._types.get(variable)))
        self._types[variable] = bound

    def _occurs(self, variable: Type, within: Type) -> bool:
        if variable is within:
            return True
        if within.kind is Kind.PARAM:
            bound = self._types.get(within)
            return bound is not None and self._occurs(variable, bound)
        if within.generic and within.kind in _PARAMETRIC:
            return any(self._occurs(variable, param) for param in within.params)
        return False


def less_specific(left: Type, right: Type) -> bool:
    """Whether `left` says as much as `right` or less."""
    if left is right or left.is_dynamic or left.kind is Kind.PARAM:
        return True
    if right.is_dynamic or right.kind is Kind.PARAM or left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _COMPOUND:
        return (
            left.name == right.name
            and len(left.params) == len(right.params)
            and all(less_specific(one, other) for one, other in zip(left.params, right.params, strict=True))
        )
    return False


def more_general(left: Type, right: Type) -> Type:
    """The one of two assignable types that says less."""
    return left if less_specific(left, right) else right
