"""Assignability and type variables: the part of the checker that decides whether a type is assignable to another.

A variable takes the first type it meets and widens to the more general one later. An attempt that fails leaves no
trace: bindings made on the way are undone.
"""

from modelplane.k8s.cel.types import DYN, NULL, CelType, TypeKind, rebuilt

_COMPOUND = frozenset({TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP})
_PARAMETRIC = frozenset({TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP, TypeKind.TYPE})
_NULLABLE = frozenset({TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.DURATION, TypeKind.TIMESTAMP})


class Bindings:
    """The bindings of the type variables of one expression."""

    __slots__ = ("_trail", "_types")

    def __init__(self) -> None:
        self._types: dict[CelType, CelType] = {}
        self._trail: list[tuple[CelType, CelType | None]] = []

    def assignable(self, left: CelType, right: CelType) -> bool:
        """Whether `left` may be used for `right`; what that implies for variables is kept."""
        return left is right or self.all_assignable((left,), (right,))

    def all_assignable(self, left: tuple[CelType, ...], right: tuple[CelType, ...]) -> bool:
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

    def substitute(self, pattern: CelType) -> CelType:
        """`pattern` with every bound variable replaced."""
        if not pattern.generic:
            return pattern
        if pattern.kind is TypeKind.PARAM:
            bound = self._types.get(pattern)
            return pattern if bound is None else self.substitute(bound)
        return rebuilt(pattern, tuple([self.substitute(param) for param in pattern.params]))

    def settle(self, pattern: CelType) -> CelType:
        """`pattern` with every variable replaced, the free ones by `dyn`."""
        if not pattern.generic:
            return pattern
        if pattern.kind is TypeKind.PARAM:
            bound = self._types.get(pattern)
            return DYN if bound is None else self.settle(bound)
        return rebuilt(pattern, tuple([self.settle(param) for param in pattern.params]))

    def _pairs(self, left: tuple[CelType, ...], right: tuple[CelType, ...]) -> bool:
        if len(left) != len(right):
            return False
        for one, other in zip(left, right, strict=True):
            if one is not other and not self._assign(one, other):
                return False
        return True

    def _assign(self, left: CelType, right: CelType) -> bool:
        if right.kind is TypeKind.PARAM:
            valid, bound = self._bind(left, right)
            if valid or bound:
                return valid
        if left.kind is TypeKind.PARAM:
            return self._bind(right, left)[0]
        if left.is_dynamic or right.is_dynamic:
            return True
        if left is NULL:
            return right.kind in _NULLABLE
        if right is NULL:
            return left.kind in _NULLABLE
        if left.kind is TypeKind.TYPE:
            return right.kind is TypeKind.TYPE
        if left.kind in _COMPOUND:
            return left.kind is right.kind and left.name == right.name and self._pairs(left.params, right.params)
        return left is right

    def _bind(self, candidate: CelType, variable: CelType) -> tuple[bool, bool]:
        """Whether the variable can be bound to the candidate, and whether it was bound before."""
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

    def _set(self, variable: CelType, bound: CelType) -> None:
        self._trail.append((variable, self._types.get(variable)))
        self._types[variable] = bound

    def _occurs(self, variable: CelType, within: CelType) -> bool:
        if variable is within:
            return True
        if within.kind is TypeKind.PARAM:
            bound = self._types.get(within)
            return bound is not None and self._occurs(variable, bound)
        if within.generic and within.kind in _PARAMETRIC:
            return any(self._occurs(variable, param) for param in within.params)
        return False


def less_specific(left: CelType, right: CelType) -> bool:
    """Whether `left` is equally or less specific than `right`."""
    if left is right or left.is_dynamic or left.kind is TypeKind.PARAM:
        return True
    if right.is_dynamic or right.kind is TypeKind.PARAM or left.kind is not right.kind:
        return False
    if left.kind is TypeKind.TYPE:
        return True
    if left.kind in _COMPOUND:
        return (
            left.name == right.name
            and len(left.params) == len(right.params)
            and all(less_specific(one, other) for one, other in zip(left.params, right.params, strict=True))
        )
    return False


def more_general(left: CelType, right: CelType) -> CelType:
    """The less specific of two assignable types."""
    return left if less_specific(left, right) else right
