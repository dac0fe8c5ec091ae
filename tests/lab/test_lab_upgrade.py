"""What the docs say to type, and which version follows which."""

from pathlib import Path

import pytest

from lab.e2e.upgrade import UNINSTALL, documented
from lab.upgrade import following

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("version", "after"), [("0.1.0", "0.1.1"), ("1.2.9", "1.2.10")])
def test_the_next_version_is_another_patch(version, after):
    assert following(version) == after


def test_commands_are_read_without_what_is_said_about_them():
    page = "text\n```sh\nkubectl delete a --all   # all of it\none x && two 'y z'\n```\n```sh\nnot this\n```\n"
    assert list(documented(page)) == [["kubectl", "delete", "a", "--all"], ["one", "x"], ["two", "y z"]]


def test_the_documented_way_out_is_made_of_kubectl_commands():
    commands = list(documented((ROOT / UNINSTALL).read_text()))
    assert len(commands) > 5
    assert {command[0] for command in commands} == {"kubectl"}
