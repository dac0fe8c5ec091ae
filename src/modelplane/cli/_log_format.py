"""How programs that serve write: lines for people on a terminal, and log lines for programs elsewhere."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from modelplane.reconcile.log_lines import LogFormat

ZAP_ENCODERS: Final[Mapping[str, "LogFormat"]] = {"console": "text", "json": "json"}
"""The ecosystem's names of the formats."""


def add_log_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-format", choices=["json", "text"], help="(default: text on a terminal, else json)")


def say_serving(text: str, form: "LogFormat | None") -> None:
    """On standard output, or as a line of the log."""
    import logging

    from modelplane.reconcile.log_lines import because, writes_text
    from modelplane.reconcile.log_reasons import LogReason

    if writes_text(form):
        print(text, flush=True)
    else:
        logging.getLogger(__name__).info(text, extra=because(LogReason.SERVING))
