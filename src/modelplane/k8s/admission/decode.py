"""From bytes to text that may be parsed, and from any text to one that may be shown.

Text is UTF-8 of at most 3 MiB without control characters. Quoted text is short and printable, so a manifest cannot move
the cursor, reverse the writing direction or fill the screen.
"""

import re
from typing import Final, NoReturn

from modelplane.api.errors import DocumentError

MAX_BYTES: Final = 3 * 1024 * 1024
CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that no manifest needs and that can hide or break what is shown."""

_UTF8_MARK: Final = b"\xef\xbb\xbf"
# Longest first: the mark of UTF-32 starts with the mark of UTF-16.
_FOREIGN_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_ASCII_CONTROLS: Final = bytes({*range(32), 127} - {*b"\t\n\r"})
_SHOWN_LENGTH: Final = 80


class TextError(DocumentError):
    """A DocumentError with its position. Its text is one line: source:line:column: sentence."""

    def __init__(self, sentence: str, *, source: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"{escape(source)}:{line}:{column}: {escape(sentence)}")
        self.sentence = escape(sentence)
        self.line = line
        self.column = column


def decode_text(data: bytes, *, source: str) -> str:
    """The text of a stream of documents, or TextError. A UTF-8 byte order mark is dropped."""
    if len(data) > MAX_BYTES:
        raise TextError(f"the text has {len(data)} bytes; the limit is {MAX_BYTES} (3 MiB)", source=source)
    for mark, encoding in _FOREIGN_MARKS:
        if data.startswith(mark):
            raise TextError(f"the text is {encoding}; save it as UTF-8", source=source)
    data = data.removeprefix(_UTF8_MARK)
    text = _decode_utf8(data, source)
    if not text.isascii() or len(data.translate(None, _ASCII_CONTROLS)) != len(data):
        _refuse_controls(text, source)
    return text


def refuse(sentence: str, *, source: str, text: str, index: int) -> NoReturn:
    """Raise TextError for the character at `index` of `text`."""
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    raise TextError(sentence, source=source, line=line, column=column)


def escape(text: str) -> str:
    """The text on one line, with everything that does not print spelled out."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def shorten(text: str) -> str:
    """A printable text of bounded length, for quoting."""
    return escape(text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…")


def _decode_utf8(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
    sentence = f"byte 0x{data[len(before.encode('utf-8'))]:02x} is not UTF-8 text; is this a binary file?"
    refuse(sentence, source=source, text=before, index=len(before))


def _refuse_controls(text: str, source: str) -> None:
    found = CONTROL.search(text)
    if found is not None:
        sentence = f"control character U+{ord(found[0]):04X} is not allowed; is this a binary file?"
        refuse(sentence, source=source, text=text, index=found.start())
