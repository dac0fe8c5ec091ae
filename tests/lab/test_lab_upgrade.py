"""What the docs say to type, and which version follows which."""

import subprocess
from pathlib import Path

import pytest

from lab.e2e.commands import as_run
from lab.e2e.upgrade import UNINSTALL, documented
from lab.upgrade import following

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("version", "after"), [("0.1.0", "0.1.1"), ("1.2.9", "1.2.10")])
def test_the_next_version_is_another_patch(version, after):
    assert following(version) == after


def test_commands_are_read_without_what_is_said_about_them():
    page = "text\n```sh\nkubectl delete a --all   # all of it\none x && two 'y z'\n```\n```sh\nnot this\n```\n"
    assert list(documented(page)) == [["kubectl", "delete", "a", "--all"], ["one", "x"], ["two", "y z"]]


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["printf", "%s ", "a", "b c"], "a b c "),
        (["printf", "%s ", "a", "b c", "|", "xargs", "-n", "1", "echo", "x y"], "x y a\nx y b\nx y c\n"),
    ],
)
def test_a_command_with_a_pipe_is_run_as_a_shell_would(command, printed):
    done = subprocess.run(as_run(command), capture_output=True, text=True, check=True, timeout=60.0)
    assert done.stdout == printed


def test_clusters_are_cordoned_before_they_are_deleted():
    commands = [" ".join(command) for command in documented((ROOT / UNINSTALL).read_text())]
    cordon, delete = (
        next(at for at, command in enumerate(commands) if words in command)
        for words in ('{"spec":{"cordoned":true}}', "kubectl delete inferenceclusters")
    )
    assert cordon < delete


def test_clusters_are_empty_before_they_are_deleted():
    """The kinds of models are gone a little before their replicas are, and a cluster with replicas refuses to go."""
    commands = [" ".join(command) for command in documented((ROOT / UNINSTALL).read_text())]
    order = ("kubectl delete modelservices", "--for=jsonpath={.status.replicas}=0", "kubectl delete inferenceclusters")
    places = [next(at for at, command in enumerate(commands) if words in command) for words in order]
    assert places == sorted(places)


def test_the_documented_way_out_is_made_of_kubectl_commands():
    commands = list(documented((ROOT / UNINSTALL).read_text()))
    assert len(commands) > 5
    assert {command[0] for command in commands} == {"kubectl"}
