"""The function server's log: JSON lines as function-sdk-go writes them, or lines for people."""

import logging

from modelplane.reconcile.log_lines import JsonLines, fields, fields_of

__all__ = ["TextLines", "configure", "fields"]


class TextLines(logging.Formatter):
    """Time, level and message, with the fields behind it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the standard library's name
        values = (f"{name}={value}" for name, value in fields_of(record).items())
        return " ".join([super().formatMessage(record), *values])


def configure(*, debug: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines() if debug else JsonLines())
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler], force=True)
    # A line for each request to an API says nothing that the metrics do not.
    logging.getLogger("httpx2").setLevel(logging.DEBUG if debug else logging.WARNING)
