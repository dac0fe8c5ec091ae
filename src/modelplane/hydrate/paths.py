"""File names from strangers: what may become a path below the volume."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from modelplane.hydrate.errors import SourceInvalidError

RESERVED = frozenset({".modelplane", "current", "hub", "revisions"})
"""What the loader itself keeps at the root of a volume."""
LOST_AND_FOUND = "lost+found"
_LONGEST_NAME = 255
_LONGEST_PATH = 2048


def safe_path(name: str) -> str:
    """The name as a relative path. HydrateError if it leads out of its folder or no filesystem holds it."""
    parts = name.split("/")
    if not name or any(part in {"", ".", ".."} for part in parts):
        raise SourceInvalidError(f"{name!r} is not a relative path")
    if any(ord(letter) < ord(" ") or letter == "\x7f" for letter in name):
        raise SourceInvalidError(f"{name!r} has control characters")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise SourceInvalidError(f"{name!r} is not text") from None
    if len(encoded) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise SourceInvalidError(f"{name[:64]!r}... is longer than a path may be")
    return name


def check_distinct(paths: Iterable[str]) -> None:
    """No path twice, and none that is a folder of another."""
    seen: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        if path in seen:
            raise SourceInvalidError(f"{path} is in the source twice")
        seen.add(path)
        folders.update(_folders(path))
    both = min(seen & folders, default=None)
    if both is not None:
        raise SourceInvalidError(f"{both} is a file and a folder in the source")


def selected(path: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """As huggingface_hub selects: any pattern of `include`, if there is one, and none of `exclude`.

    A star matches slashes too, and a pattern that ends with a slash is the whole folder.
    """
    included = [_whole(pattern) for pattern in include]
    if included and not any(fnmatchcase(path, pattern) for pattern in included):
        return False
    return not any(fnmatchcase(path, _whole(pattern)) for pattern in exclude)


def _whole(pattern: str) -> str:
    return f"{pattern}*" if pattern.endswith("/") else pattern


def _folders(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
