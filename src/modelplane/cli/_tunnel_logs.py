"""Lines of the hub and the agent: JSON on stderr, with the fields of each event."""

import json
import logging

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {name: value for name, value in vars(record).items() if name not in _KNOWN}
        shown = {"level": record.levelname.lower(), "event": record.getMessage(), **fields}
        return json.dumps(shown, default=str)


def log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("modelplane").setLevel(logging.INFO)
