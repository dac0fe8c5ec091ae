"""Paths into the data, as the estimate keeps them.

Upstream keeps a path in a Go slice and extends it with `append`, which reuses the memory of the shorter path where
there is room. Two extensions of one path can therefore overwrite each other: inside `m.exists(k, v, ...)` the path of
`k` may end up as that of `v`, and the estimate with it. Expressions are accepted or refused by that estimate, so the
sharing is part of the rules.
"""


class NodePath:
    """A path that shares its memory with those it was made from."""

    __slots__ = ("_length", "_memory")

    def __init__(self, memory: list[str], length: int) -> None:
        self._memory = memory
        self._length = length

    def extended(self, name: str) -> "NodePath":
        """The path one step further, in the same memory where that has room."""
        memory, length = self._memory, self._length
        if length == len(memory):
            memory = memory + [""] * max(length, 1)
        memory[length] = name
        return NodePath(memory, length + 1)

    def names(self) -> tuple[str, ...]:
        """The steps of the path at this moment."""
        return tuple(self._memory[: self._length])


def root_path(name: str) -> NodePath:
    """The path of a variable."""
    return NodePath([name], 1)


NO_PATH = NodePath([], 0)
