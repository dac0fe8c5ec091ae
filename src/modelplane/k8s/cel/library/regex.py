r"""Regular expressions: RE2 and nothing else, so no pattern can take more than linear time.

Upstream's engine is Go's `regexp`. It has RE2's syntax except `\C`, which matches half a character; that is rejected
here too. A pattern with an enormous automaton is rejected here only.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import re2

from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.work_budget import spend

_MAX_CACHED = 256
_COMPILE_EFFORT = 1_000
_MAX_REMEMBERED = 64
_MAX_REMEMBERED_LENGTH = 256
# What may precede `\C`: quoted text, other escapes and plain characters.
_SINGLE_BYTE = re.compile(r"(?s:(?>\\Q.*?(?:\\E|$)|\\[^C]|[^\\])*+\\C)")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# Enough for any pattern that someone wrote by hand, and little enough that none takes long to compile.
_OPTIONS.max_mem = 3 * 2**20


class PatternError(Exception):
    """Text that is not a regular expression."""


@lru_cache(maxsize=_MAX_CACHED)
def pattern(text: str) -> "re2._Regexp":
    """The compiled pattern, or PatternError."""
    if "\\C" in text and _SINGLE_BYTE.match(text):
        raise PatternError(f"invalid regular expression {text[:64]!r}: \\C is not supported")
    spend(_COMPILE_EFFORT)
    try:
        return re2.compile(text, options=_OPTIONS)
    except re2.error as error:
        raise PatternError(f"invalid regular expression {text[:64]!r}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


class Occurrences(dict[str, bool]):
    """Whether one pattern occurs in a subject, read as `occurrences[subject]`.

    Many devices share a product name, and a lookup takes a tenth of the time of a match, so the results for the first
    few short subjects are cached.
    """

    __slots__ = ("_match",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self._match = _matcher(text)

    def __missing__(self, subject: str) -> bool:
        occurs = self._match(subject) is not None
        if len(self) < _MAX_REMEMBERED and len(subject) <= _MAX_REMEMBERED_LENGTH:
            self[subject] = occurs
        return occurs


def _matcher(text: str) -> Callable[[str], object]:
    patterns = re2.Set.SearchSet(_OPTIONS)
    try:
        patterns.Add(text)
        patterns.Compile()
    except re2.error:
        # A set has less room for its automaton than a pattern on its own; it is merely the faster of the two.
        search_alone: Callable[[str], object] = pattern(text).search
        return search_alone
    match: Callable[[str], object] = patterns.Match
    return match


@lru_cache(maxsize=_MAX_CACHED)
def occurrences(text: str) -> Occurrences:
    """The first match of the pattern, which must be valid."""
    return Occurrences(text)


def _compiled(text: str) -> "re2._Regexp":
    try:
        return pattern(text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def search(text: str, subject: str) -> bool:
    """Whether the pattern occurs anywhere in the subject."""
    _compiled(text)
    return occurrences(text)[subject]


def find(subject: str, text: str) -> str:
    """The first occurrence, or nothing."""
    match = _compiled(text).search(subject)
    return "" if match is None else str(match.group())


def find_all(subject: str, text: str, limit: int = -1) -> list[object]:
    """All occurrences that do not overlap, at most `limit` of them unless it is negative."""
    found: list[object] = []
    if limit == 0:
        return found
    previous_end = -1
    for match in _compiled(text).finditer(subject):
        if match.start() == match.end() == previous_end:
            continue
        previous_end = match.end()
        found.append(match.group())
        if len(found) == limit:
            break
    return found


FUNCTIONS: tuple[Overload, ...] = (
    overload("string_find_string", "string.find(string) -> string", find),
    overload("string_find_all_string", "string.findAll(string) -> list(string)", find_all),
    overload("string_find_all_string_int", "string.findAll(string, int) -> list(string)", find_all),
)
