"""Arguments of tools become words of commands that only read, and nothing else."""

import pytest

from modelplane.api.errors import InputError
from modelplane.cli._main import COMMANDS, parser_of
from modelplane.cli._mcp_tools import TOOLS, command_line, structured

BY_NAME = {tool.name: tool for tool in TOOLS}
WHERE = ("--data", "/plane")
READING = {"status", "top", "cost", "trace", "explain", "events", "plan", "simulate"}


def line(name, folder, /, **arguments):
    return command_line(BY_NAME[name], arguments, WHERE, folder)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("fleet_status", {}, ["status"]),
        ("fleet_status", {"namespace": "team"}, ["status", "--namespace=team"]),
        ("top", {"namespace": "team"}, ["top", "--namespace=team"]),
        ("trace", {"kind": "modeldeployment", "name": "chat"}, ["trace", "modeldeployment/chat"]),
        ("explain", {"deployment": "c.1", "namespace": "team"}, ["explain", "deployment/c.1", "--namespace=team"]),
        ("explain_cluster", {"cluster": "east"}, ["explain", "cluster/east"]),
        ("events", {}, ["events", "--all-namespaces"]),
        ("events", {"namespace": "team", "type": "Warning"}, ["events", "--namespace=team", "--types=Warning"]),
    ],
)
def test_a_call_is_a_command_line(tmp_path, name, arguments, words):
    assert line(name, tmp_path, **arguments) == [*words, "-o", "json", *WHERE]


def test_manifests_are_a_file_of_the_call(tmp_path):
    file = tmp_path / "manifests.yaml"
    words = line("plan", tmp_path, manifests="kind: X\n", without_scale_up=True)
    assert words == ["plan", "--without-scale-up", "-f", str(file), "-o", "json", *WHERE]
    assert file.read_text() == "kind: X\n"
    steps = ["60 lose cluster east", "90 double team/chat"]
    assert line("simulate", tmp_path, manifests="", steps=steps, seconds=300) == [
        *("simulate", "--step=60 lose cluster east", "--step=90 double team/chat", "--seconds=300"),
        *("-f", str(file), "-o", "json"),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("top", {"nmespace": "a"}, "top has no argument 'nmespace'; it has namespace"),
        ("trace", {"kind": "modeldeployment"}, "trace needs the argument 'name'"),
        ("trace", {"kind": "secret", "name": "a"}, "the argument 'kind' is none of inferencecluster"),
        ("top", {"namespace": 5}, "the argument 'namespace' is not a string"),
        ("top", {"namespace": "--kubeconfig=/etc/x"}, "which is no such name"),
        ("explain", {"deployment": "-h"}, "which is no such name"),
        ("explain", {"deployment": "a\n"}, "which is no such name"),
        ("explain", {"deployment": "a/b"}, "which is no such name"),
        ("explain", {"deployment": "é"}, "which is no such name"),
        ("explain", {"deployment": ""}, "which is no such name"),
        ("plan", {"manifests": "", "without_scale_up": "yes"}, "is not a boolean"),
        ("simulate", {"manifests": "", "steps": ["lose"]}, "which is no such name"),
        ("simulate", {"manifests": "", "steps": [5]}, "is not a string"),
        ("simulate", {"manifests": "", "steps": ["1 x"] * 51}, "has more than 50 entries"),
        ("simulate", {"manifests": "", "seconds": True}, "is not a number"),
        ("simulate", {"manifests": "", "seconds": 1e9}, "is not between 0 and 7200"),
        ("simulate", {"manifests": "", "seconds": float("nan")}, "is not between 0 and 7200"),
    ],
)
def test_what_no_tool_takes_is_refused_by_name(tmp_path, name, arguments, problem):
    with pytest.raises(InputError) as refused:
        line(name, tmp_path, **arguments)
    assert problem in str(refused.value)


EXAMPLES = {
    "trace": {"kind": "modeldeployment", "name": "chat"},
    "explain": {"deployment": "chat"},
    "explain_cluster": {"cluster": "east"},
    "plan": {"manifests": "", "without_scale_up": True},
    "simulate": {"manifests": "", "steps": ["60 lose cluster east"], "seconds": 90.5},
}


@pytest.mark.parametrize("name", BY_NAME)
def test_every_tool_is_a_command_that_only_reads(tmp_path, name):
    command, *words = line(name, tmp_path, **EXAMPLES.get(name, {}))
    assert command in READING
    parsed = parser_of({each.name: each for each in COMMANDS}[command]).parse_args(words)
    assert parsed.output == "json"


@pytest.mark.parametrize(("text", "value"), [('{"a": 1}', {"a": 1}), ("[1]", None), ("{", None), ("", None)])
def test_objects_are_values_too(text, value):
    assert structured(text) == value
