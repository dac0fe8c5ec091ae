"""Takes credentials out of objects and texts that leave the control plane, such as a debug bundle.

Objects of Modelplane name Secrets and have no values of them. A credential is there all the same where somebody wrote
it into a plain field: the value of a variable, an argument, a URL, an annotation in which a tool keeps a copy of the
manifest. What is masked too much costs a reader a question; what is masked too little costs a key.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from modelplane.api.objects import Manifest

MASK: Final = "<masked>"
_CREDENTIAL: Final = r"(?:key|token(?!iz)|secret|passw|passphrase|credential|authorization|cookie)"
_NAME: Final = re.compile(_CREDENTIAL, re.IGNORECASE)
_NAMES_ONE: Final = frozenset({"key", "topologyKey", "sessionKey"})
"""Fields of Kubernetes that name a key and hold none."""
_FIELD: Final = re.compile(r"(?:[a-z]Key|[Aa]pikey|[Tt]oken|[Ss]ecret|[Pp]assword|[Pp]assphrase|[Cc]redentials?)$")
_OPAQUE: Final = frozenset({"template", "body"})
"""As texts: the packed template of a revision has values of variables, the body of a warm-up request a prompt."""
_OUR_ANNOTATIONS: Final = re.compile(r"(?:^|\.)(?:modelplane\.ai|crossplane\.io)/")
_SHORTEST: Final = 8
"""A shorter value is masked in its place and not wherever its letters occur."""
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----"
    r"(?:.{0,16384}?-----END [A-Z ]{0,32}PRIVATE KEY-----|.{0,16384})",
    re.DOTALL,
)
"""A key that was cut off has no end."""
_BY_SHAPE: Final = re.compile(
    r"\b(?:hf_|sk-|gh[opsu]_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA|nvapi-|eyJ)[A-Za-z0-9._-]{12,}"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer\s{1,8})[\w.~+/=-]{8,}")
_HEADER: Final = re.compile(r"(?i)\b((?:authorization|cookie|x-api-key)[ \t]{0,8}:[ \t]{0,8})[^\s\"'][^\n\"']*")
_USERINFO: Final = re.compile(r"(\w://)[^/\s@\"']{1,2048}@")
_QUERY: Final = re.compile(r"(https?://[^\s?\"']{1,2048}\?)[^\s\"']+")
_ASSIGNED: Final = re.compile(
    rf"(?P<name>{_CREDENTIAL}[\w.-]{{0,64}})(?P<equals>\s{{0,8}}=\s{{0,8}})"
    r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(
    rf"(?P<name>\\?\"(?!key\\?\")[\w.-]{{0,64}}?{_CREDENTIAL}[\w.-]{{0,64}}\\?\"\s{{0,8}}:\s{{0,8}})"
    r"\\?\"[^\"]*\"",
    re.IGNORECASE,
)
# Every repetition before what decides a match is bounded: one long word takes time by its length, and not squared.


def names_credential(name: str, value: str) -> bool:
    """By its name. A number of tokens is none, and on-call engineers read `--max-num-batched-tokens`."""
    return _NAME.search(name) is not None and not ("tokens" in name.lower() and value.isdecimal())


class CredentialMask(NamedTuple):
    """The values that some object names as a credential: they are masked in every text, whoever repeats them."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, items: Iterable[Manifest]) -> "CredentialMask":
        found = {value for item in items for value in _credentials(item) if len(value) >= _SHORTEST}
        return cls(tuple(sorted(found, key=lambda value: (-len(value), value))))

    def text(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, MASK)
        return _by_pattern(text)

    def item(self, item: Manifest) -> dict[str, object]:
        """Without managedFields, too: nobody reads them, and they are half of an object."""
        found = self._mapping(item)
        metadata = found.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
            metadata |= _annotations(metadata)
        return found

    def _mapping(self, part: Manifest) -> dict[str, object]:
        hidden = _hidden_fields(part) | {key for key in _OPAQUE if isinstance(part.get(key), str)}
        return {key: MASK if key in hidden else self._value(value) for key, value in part.items()}

    def _value(self, value: object) -> object:
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Sequence):
            hidden = _hidden_words(value)
            return [MASK if number in hidden else self._value(each) for number, each in enumerate(value)]
        return value


def _annotations(metadata: Manifest) -> dict[str, object]:
    """Tools keep copies of whole manifests in theirs, so only ours are shown."""
    found = metadata.get("annotations")
    if not isinstance(found, Mapping):
        return {}
    return {"annotations": {key: value if _OUR_ANNOTATIONS.search(key) else MASK for key, value in found.items()}}


def _credentials(value: object) -> Iterator[str]:
    """Every value that its own object names as a credential."""
    if isinstance(value, Mapping):
        hidden = _hidden_fields(value)
        yield from (str(value[key]) for key in hidden)
        yield from (found for key, each in value.items() if key not in hidden for found in _credentials(each))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        hidden_words = _hidden_words(value)
        yield from (str(value[number]) for number in hidden_words)
        yield from (found for each in value for found in _credentials(each))


def _hidden_fields(part: Manifest) -> frozenset[str]:
    """A variable or a header by its name, and fields of free form, such as values of charts, by theirs."""
    name, value = part.get("name"), part.get("value")
    if isinstance(name, str) and isinstance(value, str) and value and names_credential(name, value):
        return frozenset({"value"})
    texts = (key for key, each in part.items() if isinstance(each, str) and each and key not in _NAMES_ONE)
    return frozenset(key for key in texts if _FIELD.search(key))


def _hidden_words(words: Sequence[object]) -> frozenset[int]:
    """What comes after `--api-key` among arguments."""
    pairs = enumerate(pairwise(words), 1)
    return frozenset(
        number
        for number, (flag, value) in pairs
        if isinstance(flag, str) and flag.startswith("-") and "=" not in flag
        if isinstance(value, str) and not value.startswith("-") and names_credential(flag, value)
    )


def _by_pattern(text: str) -> str:
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _BY_SHAPE.sub(MASK, text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    text = _QUOTED.sub(lambda found: f'{found["name"]}"{MASK}"', text)
    return _ASSIGNED.sub(_masked_assignment, text)


def _masked_assignment(found: re.Match[str]) -> str:
    shown = MASK if names_credential(found["name"], found["value"]) else found["value"]
    return f"{found['name']}{found['equals']}{shown}"
