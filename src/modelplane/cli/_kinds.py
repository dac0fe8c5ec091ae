"""Kinds and names on the command line, as kubectl spells them: `md NAME`, `md/NAME`, `modeldeployments NAME`."""

from collections.abc import Mapping, Sequence

from modelplane.api.definitions import Definition, definitions
from modelplane.api.errors import InputError
from modelplane.api.objects import GROUP
from modelplane.k8s.admission.problems import listing
from modelplane.k8s.admission.structure import nearest


def read_target(words: Sequence[str], kinds: Mapping[str, str]) -> tuple[str, str]:
    """Kind and name. `kinds` are those that a command takes, each with a word of its own for it."""
    spelled, slash, name = words[0].partition("/")
    parts = (spelled, name, *words[1:]) if slash else tuple(words)
    if len(parts) != 2 or not all(parts):  # noqa: PLR2004  a kind and a name
        raise InputError(
            f"{' '.join(words)!r} is not KIND NAME or KIND/NAME, such as {next(iter(kinds.values()))}/NAME"
        )
    known = {spelling: kind for kind, word in kinds.items() for spelling in _spellings(kind, word)}
    found = known.get(parts[0].lower())
    if found is None:
        guess = nearest(parts[0], known)
        right = f"did you mean {guess}?" if guess else f"use {listing(kinds.values())}"
        raise InputError(f"{parts[0]!r} is not a kind of this command; {right}")
    return found, parts[1]


def _spellings(kind: str, word: str) -> tuple[str, ...]:
    names = _definition(kind).names
    api = (names.plural, names.singular, *names.short_names)
    return (*api, *(f"{name}.{GROUP}" for name in (names.plural, names.singular)), word, f"{word}s")


def _definition(kind: str) -> Definition:
    return next(each for (_, name), each in definitions().items() if name == kind)
