"""A file of lines that a program adds to: decisions of a picker, usage of a router."""

import os
import sys
from collections.abc import Callable

from modelplane.api.errors import InputError


def open_line_log(flag: str, path: str) -> Callable[[bytes], object]:
    """Writes lines to this file, of which - is standard output. The flag is named where it cannot be opened."""
    try:
        to = sys.stdout.fileno() if path == "-" else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    except OSError as error:
        raise InputError(f"{flag} {path}: {error.strerror}") from error
    # Unbuffered, so that a line is there when its request is. The file is open as long as the process lives.
    return lambda line: os.write(to, line)
