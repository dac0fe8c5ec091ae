"""Text to tokens, and the values of literals.

Each token is the longest that fits, as in the grammar of cel-go 0.26. A token is (kind, text, offset); operators and
keywords are their own kind. Identifiers in backticks do not exist in this version of the language.
"""

import math
import re
from typing import TypeAlias

from modelplane.k8s.cel.errors import SyntaxFault
from modelplane.k8s.cel.values import MAX_INT, MAX_UINT, MIN_INT, Uint

Token: TypeAlias = tuple[str, str, int]

IDENT, INT, UINT, FLOAT, STRING, BYTES, END = "identifier", "int", "uint", "float", "string", "bytes", "end of text"

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"
_QUOTED = (
    rf'"""(?s:(?:{_ESCAPE}|[^\\])*?)"""'
    rf"|'''(?s:(?:{_ESCAPE}|[^\\])*?)'''"
    rf'|"[^\\"\n\r]*+(?:{_ESCAPE}[^\\"\n\r]*+)*"'
    rf"|'[^\\'\n\r]*+(?:{_ESCAPE}[^\\'\n\r]*+)*'"
    r'|[rR]"""(?s:.*?)"""'
    r"|[rR]'''(?s:.*?)'''"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*'"
)
# The most frequent tokens come first; each looks ahead for the rarer ones with the same beginning.
_TOKENS = re.compile(
    r"(?P<identifier>[A-Za-z_][A-Za-z0-9_]*+(?![\"']))"
    r"|(?P<op>[-+*%?:,()\[\]{}]|\.(?![0-9])|==|&&|\|\||[<>!]=?+|/(?!/))"
    r"|(?P<skip>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<string>{_QUOTED})"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    rf"|(?P<bytes>[bB](?:{_QUOTED}))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
)
_KEYWORDS = frozenset({"in", "true", "false", "null"})
_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE_BODY = re.compile(r"\\([xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7]|.)", re.DOTALL)
_MAX_DIGITS = 20
_HEX = 16


def tokenize(text: str) -> list[Token]:
    """All tokens of the text, closed by END."""
    tokens: list[Token] = []
    position = 0
    for match in _TOKENS.finditer(text):
        start, end = match.span()
        if start != position:
            break
        position = end
        kind = match.lastgroup
        if kind in {"identifier", "name"}:
            token = match[0]
            tokens.append((token if token in _KEYWORDS else IDENT, token, start))
        elif kind == "op":
            token = match[0]
            tokens.append((token, token, start))
        elif kind != "skip":
            tokens.append((kind or "", match[0], start))
    if position < len(text):
        raise SyntaxFault(f"unexpected character {text[position]!r}", position)
    tokens.append((END, "", position))
    return tokens


def int_literal(text: str, offset: int, *, negative: bool = False) -> int:
    """The value of an integer literal, whose sign is part of it."""
    number = _whole(text)
    value = -number if negative else number
    if not MIN_INT <= value <= MAX_INT:
        raise SyntaxFault("invalid int literal: it does not fit in 64 bits", offset)
    return value


def uint_literal(text: str, offset: int) -> Uint:
    """The value of an unsigned literal such as 7u."""
    number = _whole(text[:-1])
    if number > MAX_UINT:
        raise SyntaxFault("invalid uint literal: it does not fit in 64 bits", offset)
    return Uint(number)


def _whole(text: str) -> int:
    digits, base = (text[2:], _HEX) if text.startswith("0x") else (text, 10)
    digits = digits.lstrip("0") or "0"
    return int(digits, base) if len(digits) <= _MAX_DIGITS else MAX_UINT + 1


def float_literal(text: str, offset: int, *, negative: bool = False) -> float:
    """The value of a floating point literal."""
    value = float(text)
    if math.isinf(value):
        raise SyntaxFault("invalid double literal: it is out of range", offset)
    return -value if negative else value


def string_literal(text: str, offset: int) -> str:
    """The value of a string literal, quotes and escapes resolved."""
    content, raw = _content(text)
    if raw or "\\" not in content:
        return content
    return _ESCAPE_BODY.sub(lambda match: _unescaped(match.group(1), offset), content)


def _unescaped(body: str, offset: int) -> str:
    simple = _SIMPLE_ESCAPES.get(body)
    if simple is not None:
        return simple
    code = int(body, 8) if body[0] in "0123" else int(body[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004  the bounds of Unicode scalar values
        raise SyntaxFault("invalid unicode code point in a string literal", offset)
    return chr(code)


def bytes_literal(text: str, offset: int) -> bytes:
    """The value of a bytes literal; hexadecimal and octal escapes are single bytes."""
    content, raw = _content(text[1:])
    if raw or "\\" not in content:
        return content.encode()
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE_BODY.finditer(content):
        parts += (content[position : match.start()].encode(), _unescaped_bytes(match.group(1), offset))
        position = match.end()
    return b"".join([*parts, content[position:].encode()])


def _unescaped_bytes(body: str, offset: int) -> bytes:
    simple = _SIMPLE_ESCAPES.get(body)
    if simple is not None:
        return simple.encode()
    if body[0] in "uU":
        raise SyntaxFault("a bytes literal has no unicode escapes", offset)
    code = int(body, 8) if body[0] in "0123" else int(body[1:], 16)
    return bytes((code,))


def _content(text: str) -> tuple[str, bool]:
    """The content of the quotes, with line ends as newlines, and whether it is raw."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    width = 3 if len(text) >= 6 and text[:3] in {'"""', "'''"} else 1  # noqa: PLR2004  two triple quotes
    return text[width:-width], raw
