"""The function server's log: JSON lines as function-sdk-go writes them, or lines for people.

Fields of a line travel in the `extra` of the standard library's loggers, so lines of libraries have the same form.
"""

import logging
from collections.abc import Mapping

import msgspec

_FIELDS = "fields"


def fields(**values: object) -> Mapping[str, Mapping[str, object]]:
    """The `extra` of a line with these fields."""
    return {_FIELDS: values}


class JsonLines(logging.Formatter):
    """One JSON object a line: level, msg, ts, and the line's fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"level": record.levelname.lower(), "msg": record.getMessage(), "ts": round(record.created, 3)}
        line |= getattr(record, _FIELDS, {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextLines(logging.Formatter):
    """Time, level and message, with the fields behind it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the standard library's name
        values: Mapping[str, object] = getattr(record, _FIELDS, {})
        return " ".join([super().formatMessage(record), *(f"{name}={value}" for name, value in values.items())])


def configure(*, debug: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines() if debug else JsonLines())
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler], force=True)
    # A line for each request to an API says nothing that the metrics do not.
    logging.getLogger("httpx2").setLevel(logging.DEBUG if debug else logging.WARNING)
