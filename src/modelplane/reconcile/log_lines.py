"""Log lines as JSON objects: the form that every program of Modelplane writes where nobody watches a terminal.

Every line of ours has `reason`, a LogReason that programs may match. A line about an object has `object`, too, as
Kind/namespace/name, or Kind/name where its kind has no namespace. They travel in the `extra` of the standard library's
loggers, so lines of libraries have the same form. `tests/test_logs.py` checks that no line is without.
"""

import logging
import sys
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from modelplane.reconcile.log_reasons import LogReason

_FIELDS: Final = "fields"
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
_LIBRARIES: Final = ("httpx", "httpx2")
LogFormat = Literal["json", "text"]
LOG_FORMATS: Final[tuple[LogFormat, ...]] = ("json", "text")
Extra = Mapping[str, Mapping[str, object]]


def because(reason: LogReason, /, **values: object) -> Extra:
    """The `extra` of a line about no object of the API."""
    return {_FIELDS: {"reason": reason.value, **values}}


def about(reason: LogReason, kind: str, name: str, namespace: str = "", /, **values: object) -> Extra:
    """The `extra` of a line about an object."""
    named = "/".join(filter(None, (kind, namespace, name)))
    return {_FIELDS: {"object": named, "reason": reason.value, **values}}


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    found: Mapping[str, object] = getattr(record, _FIELDS, {})
    return found


class JsonLines(logging.Formatter):
    """One JSON object a line, as zap writes them: level, ts, logger, msg, and the line's fields."""

    def __init__(self, **always: object) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "level": record.levelname.lower(),
            "ts": round(record.created, 3),
            "logger": record.name,
            "msg": record.getMessage(),
            **self._always,
            **fields_of(record),
        }
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextLines(logging.Formatter):
    """Time, level and message, with the fields behind it."""

    def __init__(self, **always: object) -> None:
        super().__init__(_TEXT)
        self._always = always

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the standard library's name
        values = {**self._always, **fields_of(record)}
        return " ".join([super().formatMessage(record), *(f"{name}={value}" for name, value in values.items())])


def writes_text(form: LogFormat | None) -> bool:
    """None: text where a person reads it on a terminal, else JSON."""
    return form == "text" or (form is None and sys.stderr.isatty())


def log_to_stderr(form: LogFormat | None, level: int, **always: object) -> None:
    """`always` are fields of every line."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines(**always) if writes_text(form) else JsonLines(**always))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # A line for each request to an API says nothing that the metrics do not.
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
