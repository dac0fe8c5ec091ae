"""Names of properties as identifiers of CEL, and back: `my-field.x` is written `my__dash__field__dot__x`."""

import re

RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_PLAIN = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII)
_EXPANDED = re.compile(r"__|[-./]")
_FOLDED = re.compile(r"__([^_]+)__")
_NAMES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SIGNS = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def escape(name: str) -> str | None:
    """The identifier for a property name, or None where it has none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _PLAIN.fullmatch(name):
        return None
    return _EXPANDED.sub(lambda match: _NAMES[match.group()], name)


def unescape(identifier: str) -> str | None:
    """The property name behind an identifier, or None where it is not one that `escape` makes."""
    if "__" not in identifier:
        return identifier
    for content in _FOLDED.findall(identifier):
        if content not in _SIGNS and not (content in RESERVED and identifier == f"__{content}__"):
            return None
    return _FOLDED.sub(lambda match: _SIGNS.get(match.group(1), match.group(1)), identifier)
