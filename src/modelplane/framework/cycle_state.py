"""State that plugins share during one scheduling cycle."""

from typing import Generic, TypeVar

T = TypeVar("T")


class StateKey(Generic[T]):
    """Identifies one value of a CycleState. Two keys are never equal, even with equal names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"StateKey({self.name})"


class CycleState:
    """The values that plugins wrote during one cycle. A new cycle starts empty."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[object, object] = {}

    def put(self, key: StateKey[T], value: T) -> None:
        self._values[key] = value

    def get(self, key: StateKey[T]) -> T | None:
        """None if no plugin wrote it."""
        return self._values.get(key)  # type: ignore[return-value]  # `put` checked the type
