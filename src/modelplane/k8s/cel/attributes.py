"""Reading variables, fields, keys and indices: `a.b["c"][0].?d`.

A path is one root and the qualifiers after it. After an optional qualifier, or if the root is an optional value, the
rest of the path is only resolved while a value is present, and the result is an optional.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from modelplane.k8s.cel.errors import EvaluationAborted, EvaluationError
from modelplane.k8s.cel.library.network import CIDR, IP
from modelplane.k8s.cel.library.urls import URL
from modelplane.k8s.cel.types import CelType
from modelplane.k8s.cel.values import NONE, Optional, find, is_list, is_map, list_size, runtime_type
from modelplane.k8s.mutable_quantity import MutableQuantity
from modelplane.k8s.quantity import Quantity
from modelplane.k8s.semver import Version

_UNCONVERTIBLE = (Quantity, MutableQuantity, Version, URL, IP, CIDR)


class Activation:
    """One evaluation: what variables hold, by slot, and what it has cost so far.

    The cost is compared with the limit once per iteration of a loop, after expensive calls, and at the end: between
    those moments it grows by no more than the expression is long.
    """

    __slots__ = ("limit", "slots", "spent")

    def __init__(self, slots: list[object], limit: int) -> None:
        self.slots = slots
        self.limit = limit
        self.spent = 0

    def check(self) -> None:
        """Ends the evaluation where the budget is spent."""
        if self.spent > self.limit:
            raise EvaluationAborted(f"the evaluation costs more than its budget of {self.limit} units")


class ExactLimitActivation(Activation):
    """An evaluation that ends with the step that exceeds the budget, as upstream's does; it is slower."""

    __slots__ = ("_spent",)

    @property
    def spent(self) -> int:
        """The cost so far."""
        return self._spent

    @spent.setter
    def spent(self, units: int) -> None:
        self._spent = units
        if units > self.limit:
            self.check()


Step: TypeAlias = Callable[[Activation], object]


class Qualifier(Protocol):
    """One step of a path."""

    optional: bool

    def qualify(self, state: Activation, value: object) -> object:
        """The value's element, or an error."""

    def qualify_if_present(self, state: Activation, value: object) -> tuple[bool, object]:
        """Whether the value has something there, and what."""


def is_key(value: object) -> bool:
    """Whether a value is a valid index."""
    return isinstance(value, str | bool | int | float)


def look_up(value: object, key: object) -> tuple[bool, object]:
    """Whether a map or list has something under the key, and what; a key of the wrong kind is an error for lists."""
    if is_map(value):
        return find(value, key)
    if is_list(value):
        index = _index(key)
        if 0 <= index < list_size(value):
            return True, value[index]
    return False, None


def _index(key: object) -> int:
    if isinstance(key, int) and not isinstance(key, bool):
        return int(key)
    if isinstance(key, float):
        if key.is_integer():
            return int(key)
        raise EvaluationError(f"unsupported index value {key} in list")
    raise EvaluationError("unsupported index type in list")


def _missing(value: object, key: object) -> EvaluationError:
    if is_list(value):
        return EvaluationError(f"index out of bounds: {key}")
    return EvaluationError(f"no such key: {key}")


@dataclass(slots=True, eq=False)
class ConstantQualifier:
    """A field, or a key or index that is a constant."""

    key: object
    optional: bool = False

    def qualify(self, state: Activation, value: object) -> object:
        state.spent += 1
        present, found = look_up(value, self.key)
        if present:
            return found
        raise _missing(value, self.key)

    def qualify_if_present(self, state: Activation, value: object) -> tuple[bool, object]:
        present, found = look_up(value, self.key)
        if present:
            state.spent += 1
        return present, found


@dataclass(slots=True, eq=False)
class PresenceQualifier:
    """The last field of `has(a.b)`."""

    key: object
    optional: bool = False

    def qualify(self, state: Activation, value: object) -> object:
        state.spent += 1
        return look_up(value, self.key)[0]

    def qualify_if_present(self, state: Activation, value: object) -> tuple[bool, object]:
        present, found = look_up(value, self.key)
        if present:
            state.spent += 1
        return present, found


@dataclass(slots=True, eq=False)
class ComputedQualifier:
    """A key or index that has to be computed first."""

    key: Step
    optional: bool = False

    def qualify(self, state: Activation, value: object) -> object:
        try:
            key = self._computed(state)
        except EvaluationError:
            state.spent += 1
            raise
        state.spent += 1
        present, found = look_up(value, key)
        if present:
            return found
        raise _missing(value, key)

    def qualify_if_present(self, state: Activation, value: object) -> tuple[bool, object]:
        present, found = look_up(value, self._computed(state))
        if present:
            state.spent += 1
        return present, found

    def _computed(self, state: Activation) -> object:
        key = self.key(state)
        if is_key(key):
            return key
        raise EvaluationError(f"a value of type {runtime_type(key).name} cannot be a key or index")


def _opened(optional: Optional) -> object:
    """The value of an optional, as upstream sees it after the optional was assigned to a variable."""
    value = optional.value
    if isinstance(value, _UNCONVERTIBLE):
        return EvaluationError("an optional of this type cannot be read from a variable")
    if isinstance(value, Optional):
        return None if value is NONE else _opened(value)
    native: Callable[[], object] | None = getattr(value, "cel_native", None)
    if native is not None:
        return native()
    return value.name if isinstance(value, CelType) else value


@dataclass(slots=True, eq=False)
class Path:
    """A root and its qualifiers; `root` raises where it has no value. Reading a path costs `cost` beyond its parts."""

    root: Step
    cost: int = 1
    qualifiers: list[Qualifier] = field(default_factory=list)

    def resolve(self, state: Activation) -> object:
        """The value at the end of the path."""
        value = self.root(state)
        optional = False
        if isinstance(value, Optional):
            if value is NONE:
                return NONE
            value, optional = _opened(value), True
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            if not optional:
                value = qualifier.qualify(state, value)
                continue
            if isinstance(value, EvaluationError):
                raise value
            present, value = qualifier.qualify_if_present(state, value)
            if not present:
                return NONE
        return Optional(value) if optional else value
