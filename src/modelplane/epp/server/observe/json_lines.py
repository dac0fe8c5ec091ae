"""Log lines as JSON objects, as the ecosystem's pickers write them with `--zap-encoder json`."""

import logging

import msgspec

from modelplane.reconcile.log_lines import fields_of


class PickerJsonLines(logging.Formatter):
    """One object a line: level, ts, logger, msg, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "level": record.levelname.lower(),
            "ts": round(record.created, 3),
            "logger": record.name,
            "msg": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()
