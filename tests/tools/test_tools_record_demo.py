import re
import sys
from xml.etree import ElementTree as ET

import pytest

from tools.record_demo import COLUMNS, MAX_BYTES, ROOT, Line, _check, drawing, record

RECORDED = (ROOT / "docs" / "demo.svg").read_text()
SVG = "{http://www.w3.org/2000/svg}"


def rows(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314  our own file


def delays(svg):
    return [float(found) for found in re.findall(r"animation-delay:([\d.]+)s", svg)]


def test_a_program_is_recorded_in_a_terminal():
    size = "import os; print(os.isatty(1), os.get_terminal_size().columns)"
    found = record([sys.executable, "-c", f"{size}; print('10%\\r\\x1b[1mdone\\x1b[0m')"])
    assert [line.text for line in found] == [f"True {COLUMNS}", "done"]
    assert 0 < found[0].at_s <= found[1].at_s


def test_a_program_that_fails_is_not_recorded():
    with pytest.raises(SystemExit, match="failed; nothing is written"):
        record([sys.executable, "-c", "raise SystemExit(3)"])


def test_lines_appear_when_they_did_and_go_on_below():
    svg = drawing([Line(7.0, "<start> & so on"), Line(7.5, "x" * (COLUMNS + 1))])
    assert rows(svg) == ["$ modelplane demo", "<start> & so on", "x" * COLUMNS, "x"]
    assert delays(svg) == [0.0, 1.0, 1.5, 1.5]


def test_names_of_this_machine_are_refused(monkeypatch):
    monkeypatch.setenv("USER", "somebody")
    with pytest.raises(SystemExit, match="names of this machine: somebody"):
        _check("<text>/srv/somebody/x</text>")
    with pytest.raises(SystemExit, match="not written: 150001 bytes"):
        _check("x" * (MAX_BYTES + 1))
    _check("<text>nobody</text>")


def test_the_recorded_demo_is_whole_small_and_still_readable():
    shown = rows(RECORDED)
    assert shown[0] == "$ modelplane demo"
    assert shown[-1].endswith("stopped")
    assert any("placement: 1 on east, 1 on west" in line for line in shown)
    assert delays(RECORDED) == sorted(delays(RECORDED))
    assert len(RECORDED.encode()) <= MAX_BYTES
    assert "<script" not in RECORDED
    assert "prefers-reduced-motion" in RECORDED
    assert not any(re.search(r"/(home|root|tmp|work|Users)/", line) for line in shown)
