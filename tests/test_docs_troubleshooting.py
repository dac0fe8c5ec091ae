"""The page of reasons and what to do has every reason of the code, and commands that the program takes."""

import re
import shlex
from pathlib import Path

import pytest

from modelplane.api.reasons import Reason
from modelplane.cli._main import COMMANDS, _parser

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "troubleshooting.md").read_text()
TABLES, _, REST = PAGE.partition("## Nothing to do")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TABLES.splitlines() if line.startswith("| `")]
TYPED = sorted({row[3].strip("`") for row in ROWS} | set(re.findall(r"`(modelplane [^`]+)`", TABLES)))


def test_every_reason_has_one_row_or_says_that_all_is_well():
    named = [row[0].strip("`") for row in ROWS] + re.findall(r"`(\w+)`", REST)
    assert sorted(named) == sorted(reason.value for reason in Reason)


def test_every_row_has_a_cause_something_to_do_and_a_command():
    assert [row for row in ROWS if len(row) != 4 or not all(row)] == []


@pytest.mark.parametrize("line", [line for line in TYPED if line.startswith("modelplane ")])
def test_a_command_is_one_that_the_program_takes(line):
    words = shlex.split(line)[1:]
    assert words[0] in {command.name for command in COMMANDS}
    assert _parser(words).parse_args(words).command == words[0]


def test_other_commands_are_kubectls():
    assert {line.split()[0] for line in TYPED} == {"modelplane", "kubectl"}
