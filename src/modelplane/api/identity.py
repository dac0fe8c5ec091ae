"""A cache by the identity of an object, for objects that are never changed and are handed out again while equal."""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class IdentityMemo(Generic[K, T]):
    """`compute` of an object, once for the same object. Cleared when it holds `most`."""

    __slots__ = ("_compute", "_known", "_most")

    def __init__(self, compute: Callable[[K], T], most: int) -> None:
        self._compute = compute
        self._most = most
        self._known: dict[int, tuple[K, T]] = {}

    def __call__(self, key: K) -> T:
        # The object is kept with what was found of it: an identity is taken over only by an object that is gone.
        known = self._known.get(id(key))
        if known is None or known[0] is not key:
            if len(self._known) >= self._most:
                self._known.clear()
            known = self._known[id(key)] = (key, self._compute(key))
        return known[1]
