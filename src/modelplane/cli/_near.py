"""What to type instead of a name that no object has."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from modelplane.api.errors import ModelplaneError, NotFoundError
from modelplane.api.objects import Manifest, name_of, namespace_of
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


def near_object(name: str, namespace: str | None, known: Sequence[Manifest]) -> str:
    """The namespace that has the name, else the nearest name. `known` are the objects of the kind.

    None: the name was searched in every namespace.
    """
    elsewhere = sorted(namespace_of(item) for item in known if name_of(item) == name)
    if elsewhere:
        return f"; it is in namespace {' and '.join(elsewhere)}: add -n {elsewhere[0]}"
    beside = [name_of(item) for item in known if namespace in {None, namespace_of(item)}]
    return near_name(name, beside or [f"{namespace_of(item)}/{name_of(item)}" for item in known])


def note_empty_namespace(namespace: str, known: Collection[str]) -> None:
    """Say that a namespace has nothing, with the nearest of those that have something. Empty: all were meant."""
    if namespace and namespace not in known:
        print(f"nothing is in namespace {namespace}{near_name(namespace, sorted(set(known)))}", file=sys.stderr)


@contextmanager
def suggesting(hint: Callable[[], str]) -> Iterator[None]:
    """A NotFoundError gets the hint, which is made then; none where the names may not be read."""
    try:
        yield
    except NotFoundError as error:
        raise NotFoundError(f"{error}{_made(hint)}") from error


def _made(hint: Callable[[], str]) -> str:
    try:
        return hint()
    except ModelplaneError:
        return ""
