"""Field paths, spelled as Kubernetes spells them: `spec.nodePools[0].name`, `metadata.labels[a/b]`."""

from typing import Final, TypeAlias


class MapKey(str):
    """A key of a free-form map. It equals the plain string, and is shown in brackets instead of after a dot."""

    __slots__ = ()


Path: TypeAlias = tuple[str | int, ...]
"""Field names (str), keys of free-form maps (Key) and list indices (int), from the root of the object down."""

ROOT: Final[Path] = ()


def render(path: Path) -> str:
    """The path as people read it; the root itself is a lone dot."""
    return "".join(_step(step) for step in path).removeprefix(".") or "."


def _step(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int | MapKey) else f".{step}"
