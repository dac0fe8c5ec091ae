"""Tables on a terminal: what objects say stays text."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.cli import _formats, main
from modelplane.cli._formats import print_changes, table_text, without_ages
from modelplane.cli._shown import print_table
from tests.support.hostile_texts import HOSTILE

ROOT = Path(__file__).resolve().parents[2]


def test_a_table_has_columns_as_wide_as_their_cells():
    found = table_text(("NAME", "HEALTH"), [("a", "Ready"), ("longer", 3)])
    assert found == "NAME    HEALTH\na       Ready\nlonger  3\n"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_cell_stays_in_its_cell(text, capsys):
    shown = table_text(("NAME", "WHY"), [("a", text), (text, "b")])
    assert len(shown.split("\n")) == 4
    assert all(line.isprintable() for line in shown.split("\n"))
    print_table(("NAME", "WHY"), [("a", text), (text, "b")])
    assert capsys.readouterr().out == shown


@given(st.text())
def test_any_cell_prints(text):
    assert all(line.isprintable() for line in table_text(("A",), [(text,)]).split("\n"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_ours_alone(monkeypatch):
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = table_text(("HEALTH", "WHY"), [("Ready", "\x1b[31mred")])
    assert shown == "HEALTH  WHY\n\x1b[32mReady\x1b[0m   \\x1b[31mred\n"


def test_an_age_is_no_change():
    tables = "KIND  READY  AGE\na     True   {}\n\nOTHER  WHY\nb      five words of a {}\n"
    assert without_ages(tables.format("1s", "x")) == without_ages(tables.format("2m1s", "x"))
    assert without_ages(tables.format("1s", "x")) != without_ages(tables.format("1s", "y"))
    assert without_ages(tables.format("1s", "x")) != without_ages(tables.format("1s", "x").replace("True", "False"))


def test_a_watched_text_is_printed_when_it_becomes_another(monkeypatch, capsys):
    texts = iter(["a\n", "a\n", "b\n"])
    monkeypatch.setattr(_formats, "_EVERY_S", 0.0)

    def text():
        found = next(texts, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        print_changes(text, watch=True)
    assert capsys.readouterr().out == "a\n\nb\n"
    print_changes(lambda: "once\n", watch=False)
    assert capsys.readouterr().out == "once\n"


@pytest.mark.parametrize("form", ["text", "table"])
def test_text_and_table_are_one_word(form, capsys):
    words = ["plan", "-f", str(ROOT / "examples" / "quickstart"), "-o"]
    assert main([*words, form]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("ACTION")
    with pytest.raises(SystemExit):
        main([*words, "tabel"])
