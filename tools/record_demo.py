"""Records `modelplane demo` in a terminal and writes docs/demo.svg: an animation without a script, readable when still.

record_demo.py [--out docs/demo.svg]

The program runs in a pseudo-terminal of a fixed width. Each line appears when it did, but that the silence before the
first one is cut to a second; after the last one everything stays. A viewer that does not animate, or a reader who
prefers no motion, sees the whole output.
"""

import argparse
import html
import os
import pty
import re
import struct
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COLUMNS, ROWS = 110, 50
MAX_BYTES = 150_000
_PROMPT = "$ modelplane demo"
_FIRST_S = 1.0
"""How long the prompt stands alone."""
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LEFT, _TOP, _LINE, _CHARACTER = 16, 28, 17, 7.8


class Line(NamedTuple):
    at_s: float
    text: str


def record(command: list[str]) -> list[Line]:
    """Run it in a terminal, and say when each line was complete."""
    pid, terminal = pty.fork()
    if pid == 0:
        ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", "COLUMNS": str(COLUMNS)})  # noqa: S606  ours
    started, pending, lines = time.monotonic(), b"", []
    while chunk := _read(terminal):
        *whole, pending = (pending + chunk).split(b"\n")
        now = time.monotonic() - started
        lines += [Line(now, _shown(line)) for line in whole]
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"{command[0]} failed; nothing is written")
    return lines


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end was closed
        return b""


def _shown(line: bytes) -> str:
    """What stands in the terminal at the end of a line: what was written over is gone."""
    text = _ESCAPE.sub("", line.decode(errors="replace").rstrip("\r").rpartition("\r")[2])
    return "".join(each for each in text if each.isprintable())


def drawing(lines: list[Line]) -> str:
    """The animation. A line that is wider than the terminal goes on below, as there."""
    cut_s = lines[0].at_s - _FIRST_S
    rows = [Line(0.0, _PROMPT)]
    for line in lines:
        starts = range(0, max(len(line.text), 1), COLUMNS)
        rows += [Line(line.at_s - cut_s, line.text[start : start + COLUMNS]) for start in starts]
    width, height = _LEFT * 2 + round(COLUMNS * _CHARACTER), _TOP + _LINE * len(rows)
    body = "\n".join(_text(number, row) for number, row in enumerate(rows))
    return _PAGE.format(width=width, height=height, body=body)


def _text(number: int, row: Line) -> str:
    place = f'y="{_TOP + _LINE * number}" style="animation-delay:{row.at_s:.2f}s"'
    return f'<text x="{_LEFT}" {place} xml:space="preserve">{html.escape(row.text, quote=False)}</text>'


_PAGE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>A terminal in which modelplane demo runs</title>
<style>
rect {{ fill: #14191f; }}
text {{ font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #d7dee6; animation: appear 0.01s both; }}
@keyframes appear {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none; }} }}
</style>
<rect width="100%" height="100%" rx="8"/>
{body}
</svg>
"""


def _check(text: str) -> None:
    """No name of this machine or of its folders, and no more bytes than a page should load."""
    own = {os.uname().nodename, str(Path.home()), str(ROOT), os.environ.get("USER", "")} - {"", "/"}
    found = sorted(name for name in own if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))
    if found or len(text.encode()) > MAX_BYTES:
        raise SystemExit(
            f"not written: {len(text.encode())} bytes, names of this machine: {', '.join(found) or 'none'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "demo.svg", help="the file to write (docs/demo.svg)"
    )
    options = parser.parse_args()
    text = drawing(record([sys.executable, "-m", "modelplane", "demo"]))
    _check(text)
    options.out.write_text(text)
    print(f"{options.out.name}: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
