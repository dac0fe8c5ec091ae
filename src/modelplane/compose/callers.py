"""Callers of a gateway: who they are and which keys prove it, read from Secrets.

Every entry of a Secret is one caller: its name is the identity, its value the key. Envoy Gateway refuses a whole policy
for one key that is given twice, so a Secret with such a key, or with one that cannot be a header, is left out and
named. What is kept of a key outside the gateway is its SHA-256.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from modelplane.api.objects import Manifest, name_of, value_at


@dataclass(frozen=True, slots=True)
class CallerEntry:
    """A caller and its key."""

    identity: str
    key: str = field(repr=False)

    @property
    def digest(self) -> str:
        return sha256(self.key.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CallerSecrets:
    """The callers that may call, the Secrets that name them, and why others are left out."""

    callers: tuple[CallerEntry, ...] = ()
    secrets: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def read_callers(secrets: Iterable[Manifest]) -> CallerSecrets:
    """In the order of names: of two Secrets with one key or one identity the first counts."""
    found: list[CallerEntry] = []
    names: list[str] = []
    problems: list[str] = []
    for secret in sorted(secrets, key=name_of):
        entries = _entries(secret)
        problem = _problem(entries, found)
        if problem is not None:
            problems.append(f"Secret {name_of(secret)}: {problem}")
            continue
        names.append(name_of(secret))
        found += [CallerEntry(identity, key) for identity, key in entries.items() if key is not None]
    return CallerSecrets(tuple(found), tuple(names), tuple(problems))


def _problem(entries: Mapping[str, str | None], known: Iterable[CallerEntry]) -> str | None:
    keys, identities = {each.key for each in known}, {each.identity for each in known}
    if not entries:
        return "it has no entries"
    for identity, key in entries.items():
        if key is None:
            return f"the value of {identity} is not one line of text"
        if key in keys:
            return f"the key of {identity} is given twice"
        if identity in identities:
            return f"{identity} is given twice"
        keys.add(key)
    return None


def _entries(secret: Manifest) -> dict[str, str | None]:
    data, plain = value_at(secret, "data"), value_at(secret, "stringData")
    encoded = {str(name): _decoded(value) for name, value in data.items()} if isinstance(data, Mapping) else {}
    written = {str(name): _line(str(value)) for name, value in plain.items()} if isinstance(plain, Mapping) else {}
    return dict(sorted({**encoded, **written}.items()))


def _decoded(value: object) -> str | None:
    try:
        return _line(base64.b64decode(str(value), validate=True).decode())
    except ValueError:
        return None


def _line(text: str) -> str | None:
    stripped = text.strip()
    return stripped if stripped and stripped.isprintable() and stripped.isascii() else None
