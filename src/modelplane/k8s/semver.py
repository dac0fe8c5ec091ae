"""Semantic versions as Kubernetes' CEL library and its API read them.

Two readers. `parse_version` is the evaluator's: strict three-part versions whose numbers fit in 64 bits; with
`normalize` it forgives one leading `v`, leading zeros and missing minor or patch numbers, and nothing else.
`is_valid_attribute` is the API server's rule for a version attribute: the semver 2.0.0 grammar and at most 64 bytes,
with no limit on the size of a number. The API therefore admits versions that the evaluator cannot read.

Order. Major, minor, patch; a release is above its prereleases; prerelease identifiers pairwise, numbers below words,
words by byte, and the longer list above its prefix. Build metadata takes no part in order or equality.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from modelplane.api.errors import InputError

_MAX_UINT64 = 2**64 - 1
_MAX_ATTRIBUTE_BYTES = 64
_PARTS = 3
_SHOWN_TEXT = 64
_MAX_NUMBER_DIGITS = 20

_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_NUMBER = re.compile(r"[0-9]+")

# (major, minor, patch, is a release, prerelease identifiers as (is a word, number, word))
_Key: TypeAlias = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


class VersionError(InputError):
    """Text that is not a semantic version."""


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A semantic version; compares by precedence. `key` is that precedence, computed once."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...]
    build: tuple[str, ...]
    key: _Key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: "Version") -> bool:
        return self.key < other.key

    def __le__(self, other: "Version") -> bool:
        return self.key <= other.key

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(self.prerelease)
        if self.build:
            text += "+" + ".".join(self.build)
        return text


def compare_versions(left: Version, right: Version) -> int:
    """-1, 0 or 1 by precedence."""
    return (left.key > right.key) - (left.key < right.key)


def as_int64(number: int) -> int:
    """A version number as `major()`, `minor()` and `patch()` return it: its 64 bits read as signed."""
    return number if number < 2**63 else number - 2**64


def parse_version(text: str, *, normalize: bool = False) -> Version:
    """The version that `text` spells, or VersionError. Blanks are never trimmed."""
    text = _normalized(text) if normalize else text
    return _parse_short(text) if len(text) <= _SHOWN_TEXT else _parse_strict(text)


@lru_cache(maxsize=4_096)
def _parse_short(text: str) -> Version:
    return _parse_strict(text)


def is_version(text: str, *, normalize: bool = False) -> bool:
    """Whether `parse_version` accepts the text."""
    try:
        parse_version(text, normalize=normalize)
    except VersionError:
        return False
    return True


def is_valid_attribute(text: str) -> bool:
    """Whether the API accepts the text as a device's version attribute."""
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_ATTRIBUTE_BYTES:
        return False
    try:
        numbers, prerelease, build = _split(text)
    except VersionError:
        return False
    plain = (*numbers, *(identifier for identifier in prerelease if _NUMBER.fullmatch(identifier)))
    return (
        all(_NUMBER.fullmatch(number) for number in numbers)
        and not any(_has_leading_zero(number) for number in plain)
        and all(_IDENTIFIER.fullmatch(identifier) for identifier in (*prerelease, *build))
    )


def _normalized(text: str) -> str:
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", _PARTS - 1)]
    if len(parts) < _PARTS and any(mark in parts[-1] for mark in "+-"):
        raise VersionError(
            f"{_shown(text)} is not a version: a short version cannot carry a prerelease or build metadata"
        )
    return ".".join(parts + ["0"] * (_PARTS - len(parts)))


def _without_leading_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isascii() and stripped[:1].isdigit() else "0" + stripped


def _parse_strict(text: str) -> Version:
    numbers, prerelease, build = _split(text)
    major, minor, patch = (_number(number, text) for number in numbers)
    words = tuple(_prerelease_key(identifier, text) for identifier in prerelease)
    for identifier in build:
        if not _IDENTIFIER.fullmatch(identifier):
            raise VersionError(f"{_shown(text)} is not a version: bad build metadata {_shown(identifier)}")
    return Version(major, minor, patch, prerelease, build, (major, minor, patch, not words, words))


def _split(text: str) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:
    """The three numbers, the prerelease and the build identifiers, unchecked; build is cut off before prerelease."""
    parts = text.split(".", _PARTS - 1)
    if len(parts) != _PARTS:
        raise VersionError(f"{_shown(text)} is not a version: expected major.minor.patch")
    rest, plus, build = parts[2].partition("+")
    patch, minus, prerelease = rest.partition("-")
    return (
        [parts[0], parts[1], patch],
        tuple(prerelease.split(".")) if minus else (),
        tuple(build.split(".")) if plus else (),
    )


def _has_leading_zero(number: str) -> bool:
    return len(number) > 1 and number[0] == "0"


def _number(digits: str, text: str) -> int:
    if not _NUMBER.fullmatch(digits) or _has_leading_zero(digits):
        raise VersionError(f"{_shown(text)} is not a version: {_shown(digits)} is not a number without leading zeros")
    if len(digits) > _MAX_NUMBER_DIGITS or int(digits) > _MAX_UINT64:
        raise VersionError(f"{_shown(text)} is not a version: {_shown(digits)} does not fit in 64 bits")
    return int(digits)


def _prerelease_key(identifier: str, text: str) -> tuple[bool, int, str]:
    if _NUMBER.fullmatch(identifier):
        return False, _number(identifier, text), ""
    if not _IDENTIFIER.fullmatch(identifier):
        raise VersionError(f"{_shown(text)} is not a version: bad prerelease identifier {_shown(identifier)}")
    return True, 0, identifier


def _shown(text: str) -> str:
    return f'"{text}"' if len(text) <= _SHOWN_TEXT else f'"{text[:_SHOWN_TEXT]}…"'
