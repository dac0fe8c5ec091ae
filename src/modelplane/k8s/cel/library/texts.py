"""Values as text: the output of `%s`, and Go's quoting."""

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.conversion import bool_to_string, bytes_to_string, double_to_string
from modelplane.k8s.cel.library.timestamps import duration_text, timestamp_text
from modelplane.k8s.cel.types import CelType
from modelplane.k8s.cel.values import CelDuration, Timestamp, Uint, is_list, is_map, list_size, map_items, runtime_type
from modelplane.k8s.cel.work_budget import spend

_ESCAPES = {
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
_PER_ELEMENT = 40
_ASCII_END, _BASIC_END = 0x80, 0x10000


def quoted(text: str) -> str:
    """The text as a Go string literal."""
    return '"' + "".join([_ESCAPES.get(char) or _escaped(char) for char in text]) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < _ASCII_END:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _BASIC_END else f"\\U{code:08x}"


def text_of(value: object) -> str:
    """The output of `%s` for a value."""
    if isinstance(value, str):
        return value
    if is_list(value):
        spend(_PER_ELEMENT * list_size(value))
        return f"[{', '.join([_literal(item) for item in value])}]"
    if is_map(value):
        spend(_PER_ELEMENT * len(value))
        pairs = sorted([(_key(key), _literal(item)) for key, item in map_items(value)])
        return f"{{{', '.join([f'{key}:{item}' for key, item in pairs])}}}"
    return _scalar(value)


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return bool_to_string(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return double_to_string(value)
    if isinstance(value, bytes):
        return bytes_to_string(value)
    if isinstance(value, CelDuration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, CelType):
        return value.name
    raise EvaluationError(f"a value of type {runtime_type(value).name} cannot be formatted as a string")


def _literal(value: object) -> str:
    """A value inside a list or map, as it would be written in an expression."""
    text = f"{value:.6f}" if isinstance(value, float) else text_of(value)
    if isinstance(value, str):
        return quoted(text)
    if isinstance(value, bytes):
        return "b" + quoted(text)
    if isinstance(value, float) and text in _NOT_FINITE:
        return f'"{_NOT_FINITE[text]}"'
    if isinstance(value, CelDuration):
        return f'duration("{text}")'
    return f'timestamp("{text}")' if isinstance(value, Timestamp) else text


_NOT_FINITE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


def _key(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool | int | Uint):
        return text_of(value)
    raise EvaluationError(f"a map key of type {runtime_type(value).name} cannot be formatted")
