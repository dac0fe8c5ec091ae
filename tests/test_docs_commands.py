"""Every command of ours in a fence is one that the program takes: its command, verb and options."""

import re
import shlex
from pathlib import Path

import pytest

from modelplane.cli._main import COMMANDS, _parser

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]
FENCE = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?modelplane (.+)$", re.MULTILINE)
END = {"|", "||", "&&", ">", "<", "2>/dev/null"}


def commands(page):
    """The words of each command, up to a pipe or a redirection."""
    for line in (line for fence in FENCE.findall(page.read_text()) for line in COMMAND.findall(fence)):
        words = shlex.split(line, comments=True)
        yield words[: next((at for at, word in enumerate(words) if word in END), len(words))]


SHOWN = {page: list(commands(page)) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if SHOWN[page]], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_are_taken(page, capsys):
    names = {command.name for command in COMMANDS}
    refused = []
    for words in SHOWN[page]:
        try:
            assert words[0] in names
            _parser(words).parse_args(words)
        except (AssertionError, SystemExit):
            refused.append((" ".join(words), capsys.readouterr().err.strip().rpartition("\n")[2]))
    assert refused == []


def test_there_are_many():
    assert sum(map(len, SHOWN.values())) > 120


def test_a_wait_names_its_time():
    """Of itself kubectl gives up after 30 seconds, and definitions take longer on a busy control plane."""
    waits = [
        (str(page.relative_to(ROOT)), line)
        for page in PAGES
        for fence in FENCE.findall(page.read_text())
        for line in fence.splitlines()
        if re.search(r"\bkubectl( -\S+ \S+)* wait\b", line)
    ]
    assert len(waits) > 5
    assert [wait for wait in waits if "--timeout=" not in wait[1]] == []
