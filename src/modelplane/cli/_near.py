"""What to type instead of a name that no object has."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from modelplane.api.errors import ModelplaneError, NotFoundError
from modelplane.cli._parser import nearest_word

_SHOWN: Final = 5


def near_name(name: str, names: Sequence[str]) -> str:
    """The nearest name, else those that there are; empty where there are none."""
    if not names:
        return ""
    guess = nearest_word(name, names)
    if guess:
        return f"; did you mean {guess}?"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"; there is {', '.join(names[:_SHOWN])}{more}"


@contextmanager
def suggesting(name: str, names: Callable[[], Sequence[str]]) -> Iterator[None]:
    """A NotFoundError gets the nearest of the names, which are read then."""
    try:
        yield
    except NotFoundError as error:
        raise NotFoundError(f"{error}{_hint(name, names)}") from error


def _hint(name: str, names: Callable[[], Sequence[str]]) -> str:
    try:
        return near_name(name, names())
    except ModelplaneError:
        return ""
