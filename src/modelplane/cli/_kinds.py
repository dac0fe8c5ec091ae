"""Kinds and names on the command line, as kubectl spells them: `md NAME`, `md/NAME`, `modeldeployments NAME`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from modelplane.api.definitions import definitions
from modelplane.api.errors import InputError
from modelplane.k8s.admission.problems import listing
from modelplane.k8s.admission.structure import nearest

ALL: Final = "all"
CORE_KINDS: Final = {
    "Namespace": ("namespaces", "namespace", "ns"),
    "Secret": ("secrets", "secret"),
    "ConfigMap": ("configmaps", "configmap", "cm"),
}
_PODS: Final = "pods are on the clusters: `modelplane trace` shows what a replica waits for, `logs` what engines print"
_EVENTS: Final = "`modelplane events` shows them"
_NODES: Final = "`modelplane top` shows the nodes of each pool"
_ELSEWHERE: Final = {"event": _EVENTS, "ev": _EVENTS, "pod": _PODS, "po": _PODS, "node": _NODES, "no": _NODES}
"""What people type after `kubectl get`, and where it is."""
_KINDS_OF_ALL: Final = (
    "InferenceCluster",
    "ModelDeployment",
    "ModelReplica",
    "ModelCache",
    "ModelService",
    "ModelEndpoint",
)


def kinds_of_word(word: str) -> tuple[str, ...]:
    """The kinds that `md`, `modeldeployments`, `md,ms` or `all` name."""
    if word.lower() == ALL:
        return _KINDS_OF_ALL
    known = _spellings()
    wrong = next((part for part in word.split(",") if part.lower() not in known), None)
    if wrong is not None:
        if elsewhere := _ELSEWHERE.get(wrong.lower().removesuffix("s")):
            raise InputError(f"{wrong!r} is not a kind of a control plane; {elsewhere}")
        guess = nearest(wrong.lower(), known)
        right = f"did you mean {guess}?" if guess else f"there are {', '.join(sorted(set(known.values())))}, and all"
        raise InputError(f"{wrong!r} is not a kind; {right}")
    return tuple(known[part.lower()] for part in word.split(","))


def kind_words(kinds: Collection[str] = ()) -> list[str]:
    """One short word for each kind, for completion; of some kinds alone, where a command takes no others."""
    words = {each.names.kind: (each.names.short_names or (each.names.singular,))[0] for each in definitions().values()}
    if kinds:
        return sorted(words[kind] for kind in kinds)
    return sorted({ALL, *words.values(), *(words[-1] for words in CORE_KINDS.values())})


def read_objects(words: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Kinds with their names, none where all are meant: `md`, `md,ms`, `md NAME NAME`, `md/NAME ms/NAME`."""
    if any("/" in word for word in words):
        return _slashed(words)
    kinds, names = kinds_of_word(words[0]), tuple(words[1:])
    if names and len(kinds) > 1:
        raise InputError(f"{words[0]!r} are several kinds; a name goes with one")
    return tuple((kind, names) for kind in kinds)


def _slashed(words: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        spelled, _, name = word.partition("/")
        if not name:
            raise InputError(f"{' '.join(words)!r} is neither KIND NAME nor KIND/NAME")
        kinds = kinds_of_word(spelled)
        if len(kinds) > 1:
            raise InputError(f"{spelled!r} are several kinds; a name goes with one")
        found[kinds[0]] = (*found.get(kinds[0], ()), name)
    return tuple(found.items())


def read_name(words: Sequence[str]) -> tuple[str, str]:
    """One kind and one name."""
    found = read_objects(words)
    if len(found) != 1 or len(found[0][1]) != 1:
        raise InputError(f"{' '.join(words)!r} is neither KIND NAME nor KIND/NAME")
    return found[0][0], found[0][1][0]


def read_target(words: Sequence[str], kinds: Mapping[str, str]) -> tuple[str, str]:
    """Kind and name. `kinds` are those that a command takes, each with a word of its own for it."""
    spelled, slash, name = words[0].partition("/")
    parts = (spelled, name, *words[1:]) if slash else tuple(words)
    if len(parts) != 2 or not all(parts):  # noqa: PLR2004  a kind and a name
        raise InputError(
            f"{' '.join(words)!r} is not KIND NAME or KIND/NAME, such as {next(iter(kinds.values()))}/NAME"
        )
    known = {spelling: kind for spelling, kind in _spellings().items() if kind in kinds}
    known |= {spelling: kind for kind, word in kinds.items() for spelling in (word, f"{word}s")}
    found = known.get(parts[0].lower())
    if found is None:
        guess = nearest(parts[0], known)
        right = f"did you mean {guess}?" if guess else f"use {listing(kinds.values())}"
        raise InputError(f"{parts[0]!r} is not a kind of this command; {right}")
    return found, parts[1]


def _spellings() -> dict[str, str]:
    found = {spelling: kind for kind, words in CORE_KINDS.items() for spelling in words}
    for each in definitions().values():
        names = each.names
        plain = (names.plural, names.singular, *names.short_names)
        found |= dict.fromkeys((*plain, *(f"{name}.{each.group}" for name in plain[:2])), names.kind)
    return found
