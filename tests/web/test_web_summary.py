"""What an empty fleet needs next."""

import pytest

from modelplane.cli import main
from modelplane.web.snapshot import DashboardSnapshot
from modelplane.web.summary import next_steps
from tests.support.dashboard_fleet import NOW, by_kind, cluster, deployment, fleet_objects, pool, ready, service

CLUSTER = cluster("east", pool())
MODEL = deployment("a", 1, conditions=[ready()])
CASES = [
    ("nothing", [], "No cluster is in the fleet. Add some, or start again with some:"),
    ("a cluster", [CLUSTER], "No model is deployed. Deploy one:"),
    ("a model", [CLUSTER, MODEL], "No service leads to a model. Apply a ModelService:"),
    ("a service", [CLUSTER, MODEL, service("chat", "a", [])], ""),
    ("all", fleet_objects(), ""),
]


def steps(objects):
    return next_steps(DashboardSnapshot.of(by_kind(objects), now=NOW))


@pytest.mark.parametrize(("objects", "title"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_next_step(objects, title):
    assert [step.title for step in steps(objects)] == [title] * bool(title)


def test_every_command_is_one_of_ours(capsys):
    commands = [command for case in CASES for step in steps(case[1]) for command in step.commands]
    for command in commands:
        for part in command.split(" && "):
            program, verb, *_ = part.split()
            with pytest.raises(SystemExit) as ended:
                main([verb, "--help"])
            assert (program, ended.value.code) == ("modelplane", 0)
    assert capsys.readouterr().out
