"""What is no HTTP is answered by 400 and not logged: else whoever reaches a port fills the log with tracebacks."""

import logging

_SERVERS = "aiohttp.server"
_MALFORMED = "aiohttp.http_exceptions"
"""The module of what aiohttp raises for bytes that it cannot parse. Its name is enough, and costs no import."""


def mute_malformed_requests() -> None:
    logging.getLogger(_SERVERS).addFilter(_is_worth_a_line)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__module__ != _MALFORMED
