"""The strings extension, version 2. Positions count code points."""

import re

from modelplane.k8s.cel.declarations import Overload, overload
from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.formatting import format_string
from modelplane.k8s.cel.limits import check_text
from modelplane.k8s.cel.values import ListValue, list_size

# Go's unicode.IsSpace, which is narrower than Python's white space.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_QUOTES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    """The character at a position; the position behind the last holds the empty text."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    """The first occurrence of the part from an offset on, or -1."""
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.find(part, offset)


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """The last start of the part at or before an offset, or -1."""
    if offset is None:
        return text.rfind(part) if part else len(text)
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def lower_ascii(text: str) -> str:
    """Lower case for A to Z, everything else untouched."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """Upper case for a to z, everything else untouched."""
    return text.upper() if text.isascii() else text.translate(_UPPER)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """The text with `count` occurrences replaced, all where it is negative."""
    found = text.count(old) if count < 0 else min(text.count(old), count)
    check_text(len(text) + found * (len(new) - len(old)), ascii_only=text.isascii() and new.isascii())
    return text.replace(old, new, max(count, -1))


def split(text: str, separator: str, count: int = -1) -> list[object]:
    """The parts between separators, at most `count` where that is not negative."""
    if count == 0:
        return []
    if not separator:
        limit = len(text) if count < 0 else min(count, len(text))
        return [*text[: limit - 1], text[limit - 1 :]] if limit > 0 else []
    return list(text.split(separator, -1 if count < 0 else count - 1))


def substring(text: str, start: int, end: int | None = None) -> str:
    """The characters from `start` up to `end`."""
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, stop):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:stop]


def trim(text: str) -> str:
    """The text without white space around it."""
    return text.strip(_SPACES)


def join(parts: ListValue, separator: str = "") -> str:
    """The texts of a list with a separator between them."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) != list_size(parts):
        raise EvaluationError("join: every element must be a string")
    total = sum([len(text) for text in texts]) + len(separator) * max(len(texts) - 1, 0)
    check_text(total, ascii_only=separator.isascii() and all(text.isascii() for text in texts))
    return separator.join(texts)


def quote(text: str) -> str:
    """The text as a literal in double quotes."""
    return '"' + re.sub(r'[\a\b\f\n\r\t\v\\"]', lambda match: _QUOTES[match.group()], text) + '"'


FUNCTIONS: tuple[Overload, ...] = (
    overload("string_char_at_int", "string.charAt(int) -> string", char_at),
    overload("string_index_of_string", "string.indexOf(string) -> int", index_of),
    overload("string_index_of_string_int", "string.indexOf(string, int) -> int", index_of),
    overload("string_last_index_of_string", "string.lastIndexOf(string) -> int", last_index_of),
    overload("string_last_index_of_string_int", "string.lastIndexOf(string, int) -> int", last_index_of),
    overload("string_lower_ascii", "string.lowerAscii() -> string", lower_ascii),
    overload("string_replace_string_string", "string.replace(string, string) -> string", replace),
    overload("string_replace_string_string_int", "string.replace(string, string, int) -> string", replace),
    overload("string_split_string", "string.split(string) -> list(string)", split),
    overload("string_split_string_int", "string.split(string, int) -> list(string)", split),
    overload("string_substring_int", "string.substring(int) -> string", substring),
    overload("string_substring_int_int", "string.substring(int, int) -> string", substring),
    overload("string_trim", "string.trim() -> string", trim),
    overload("string_upper_ascii", "string.upperAscii() -> string", upper_ascii),
    overload("string_format", "string.format(list(dyn)) -> string", format_string),
    overload("strings_quote", "strings.quote(string) -> string", quote),
    overload("list_join", "list(string).join() -> string", join),
    overload("list_join_string", "list(string).join(string) -> string", join),
)
