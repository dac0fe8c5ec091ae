"""A bounded memory of what follows from something else and costs more to find out than to keep."""

from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Memory(Generic[K, T]):
    """The latest of what was converted.

    What was used since the last clearing is in `_young`; at each clearing the old goes, and the young is the old.
    Threads share it without a lock. Where two meet, something is forgotten or counted twice, and nothing is ever wrong:
    what is kept under a key follows from the key.
    """

    __slots__ = ("_held", "_most", "_old", "_young")

    def __init__(self, most: int) -> None:
        self._most = most // 2
        self._young: dict[K, tuple[T, int]] = {}
        self._old: dict[K, tuple[T, int]] = {}
        self._held = 0

    def get(self, key: K) -> T | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: K, value: T, size: int) -> None:
        if self._held + size > self._most:
            self._old, self._young, self._held = self._young, {}, 0
        self._young[key] = (value, size)
        self._held += size
