"""Log lines as JSON objects: the form that every program of Modelplane writes where nobody watches a terminal.

Fields of a line travel in the `extra` of the standard library's loggers, so lines of libraries have the same form. A
line about an object has `object`, as kind and name, and `reason`, one CamelCase word that programs may match.
"""

import logging
import sys
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

_FIELDS: Final = "fields"
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
LogFormat = Literal["json", "text"]


def fields(**values: object) -> Mapping[str, Mapping[str, object]]:
    """The `extra` of a line with these fields."""
    return {_FIELDS: values}


def about(item: object, reason: str) -> Mapping[str, Mapping[str, object]]:
    """The `extra` of a line about an object."""
    return fields(object=str(item), reason=reason)


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    found: Mapping[str, object] = getattr(record, _FIELDS, {})
    return found


class JsonLines(logging.Formatter):
    """One JSON object a line: level, msg, ts, and the line's fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {"level": record.levelname.lower(), "msg": record.getMessage()}
        line |= {"ts": round(record.created, 3), **fields_of(record)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_to_stderr(form: LogFormat | None, level: int) -> None:
    """None: text where a person reads it on a terminal, else JSON."""
    handler = logging.StreamHandler()
    as_text = form == "text" or (form is None and sys.stderr.isatty())
    handler.setFormatter(logging.Formatter(_TEXT) if as_text else JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
