"""A cache bounded by the size of what it holds, which keeps what was used last."""

from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class BoundedCache(Generic[K, T]):
    """Two generations: a hit in the old one moves to the young one; when the young one is full, the old one is dropped.

    Threads share it without a lock. A race loses an entry or counts its size twice; it never returns a wrong value,
    because a value follows from its key.
    """

    __slots__ = ("_most", "_old", "_size", "_young")

    def __init__(self, most: int) -> None:
        self._most = most // 2
        self._young: dict[K, tuple[T, int]] = {}
        self._old: dict[K, tuple[T, int]] = {}
        self._size = 0

    def get(self, key: K) -> T | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: K, value: T, size: int = 1) -> None:
        if self._size + size > self._most:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[key] = (value, size)
        self._size += size
