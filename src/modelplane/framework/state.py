"""What plugins of one run tell each other: typed slots that live as long as the run."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """A place in the state of a run. Two slots are never the same, even with equal names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Slot({self.name})"


class RunState:
    """The slots that were filled during one run. A new run starts with an empty one."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[object, object] = {}

    def put(self, slot: Slot[T], value: T) -> None:
        self._values[slot] = value

    def get(self, slot: Slot[T]) -> T | None:
        """None while nothing was put there."""
        return self._values.get(slot)  # type: ignore[return-value]  # `put` saw to the type of what is in a slot
