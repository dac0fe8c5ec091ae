"""Callers of a gateway: who they are and which keys prove it, read from Secrets.

Every entry of a Secret is one caller: its name is the identity, its value the key. Envoy Gateway refuses a whole policy
for one key that is given twice, so an entry with such a key, or with one that cannot be a header, is left out and
named. The other entries hold. What is kept of a key outside the gateway is its SHA-256.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from modelplane.api.objects import Manifest, name_of, text_at, value_at

_MOST_BYTES: Final = 900_000
"""Of all entries. Kubernetes takes 1 MiB of values in a Secret, and etcd 1.5 MiB of all of it."""
_NAMED: Final = 4
"""How many bytes one byte of a Secret's name counts: names are an annotation, and there is room for 256 kiB of them."""


@dataclass(frozen=True, slots=True)
class CallerEntry:
    """A caller and its key."""

    identity: str
    key: str = field(repr=False)

    @property
    def digest(self) -> str:
        return sha256(self.key.encode()).hexdigest()

    @property
    def cost(self) -> int:
        """Bytes that it takes: the API server stores who owns each entry, too."""
        return 3 * len(self.identity) + 2 * len(self.key)


@dataclass(frozen=True, slots=True)
class CallerSecrets:
    """The callers that may call, the Secrets that name them, and why others are left out."""

    callers: tuple[CallerEntry, ...] = ()
    secrets: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def read_callers(secrets: Iterable[Manifest]) -> CallerSecrets:
    """Of two entries with one key or one identity that of the older Secret counts, as with conflicts of routes."""
    found = _Found()
    problems: list[str] = []
    by_name = {name_of(secret): secret for secret in secrets}
    for secret in sorted(by_name.values(), key=_age):
        name, entries = name_of(secret), _entries(secret)
        refused = [(identity, found.add(identity, key, name)) for identity, key in entries.items()]
        problems += [f"Secret {name}: {identity} is left out: {why}" for identity, why in refused if why is not None]
        if not entries:
            problems.append(f"Secret {name}: it has no entries")
    return CallerSecrets(tuple(found.callers), tuple(dict.fromkeys(found.secrets.values())), tuple(problems))


@dataclass(slots=True)
class _Found:
    callers: list[CallerEntry] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    """The Secret of each identity."""
    _keys: set[str] = field(default_factory=set)
    _left: int = _MOST_BYTES

    def add(self, identity: str, key: str | None, secret: str) -> str | None:
        """Why it is left out."""
        if key is None:
            return "its value is not one line of text"
        if identity in self.secrets:
            return f"Secret {self.secrets[identity]} has a caller of this name"
        if key in self._keys:
            return "another caller has its key"
        entry = CallerEntry(identity, key)
        is_known = bool(self.callers) and self.secrets[self.callers[-1].identity] == secret
        cost = entry.cost + (0 if is_known else _NAMED * (len(secret) + 1))
        if cost > self._left:
            return "the keys of a gateway fill one Secret, which is full"
        self.callers.append(entry)
        self.secrets[identity] = secret
        self._keys.add(key)
        self._left -= cost
        return None


def _age(secret: Manifest) -> tuple[str, str]:
    return text_at(secret, "metadata", "creationTimestamp"), name_of(secret)


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
