"""`modelplane drain`: what a command line asks for, and a running plane that does it."""

import argparse
import asyncio
import re
from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import InputError, NotFoundError
from modelplane.cli import drain
from modelplane.cli.drain import DrainTarget, patch_of, progress, target_of, wait
from modelplane.plane.apply import admitted
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.sim.cluster import ClusterSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
POOLS = [{"name": "a", "className": "c"}, {"name": "b", "className": "c", "drain": {"parallelism": 9}}]
CLUSTER = {"metadata": {"name": "east", "resourceVersion": "7"}, "spec": {"nodePools": POOLS}}


def parsed(*words):
    parser = argparse.ArgumentParser(prog="modelplane drain")
    drain.configure(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cluster east", (None, None, False, None)),
        ("cluster east --deadline 30m --at-a-time 2 --wait", (1800, 2, True, None)),
        ("pool east/h200 --deadline 90 --timeout 2h", (90, None, False, 7200)),
    ],
)
def test_what_a_command_line_asks_for(words, expected):
    found = parsed(*words.split())
    assert (found.deadline, found.at_a_time, found.wait, found.timeout) == expected


@pytest.mark.parametrize(
    "words",
    [
        "",
        "cluster",
        "node east",
        "cluster east --deadline soon",
        "cluster east --at-a-time 0",
        "cluster e --at-a-time ²",
    ],
)
def test_what_is_incomplete_is_wrong_usage(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        parsed(*words.split())
    assert "usage: modelplane drain" in capsys.readouterr().err


def test_what_is_drained_is_named():
    assert [str(target_of("cluster", "east")), str(target_of("pool", "east/a"))] == ["cluster east", "pool east/a"]
    for kind, name in (("cluster", "east/a"), ("pool", "east"), ("pool", "east/"), ("pool", "east/a/b")):
        with pytest.raises(InputError, match="is named"):
            target_of(kind, name)


@pytest.mark.parametrize(
    ("target", "fields", "spec"),
    [
        pytest.param(
            DrainTarget("east"),
            {"deadlineSeconds": 60},
            {"drain": {"parallelism": None, "deadlineSeconds": 60}},
            id="a cluster: nothing of an earlier drain stays",
        ),
        pytest.param(DrainTarget("east"), None, {"drain": None}, id="a cluster: end"),
        pytest.param(
            DrainTarget("east", "a"),
            {"parallelism": 1},
            {"nodePools": [{**POOLS[0], "drain": {"parallelism": 1}}, POOLS[1]]},
            id="a pool: the others stay as they are",
        ),
        pytest.param(
            DrainTarget("east", "b"), None, {"nodePools": [POOLS[0], {"name": "b", "className": "c"}]}, id="a pool: end"
        ),
    ],
)
def test_what_is_written(target, fields, spec):
    patch = patch_of(CLUSTER, target, fields)
    assert patch["spec"] == spec
    assert ("metadata" in patch) is bool(target.pool)


def test_a_pool_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(InputError, match="cluster east has no pool c; it has a, b"):
        patch_of(CLUSTER, DrainTarget("east", "c"), {})


def condition(status, generation=3, reason="Draining"):
    fields = {
        "type": "Drained",
        "status": status,
        "reason": reason,
        "message": "1 of 2",
        "observedGeneration": generation,
    }
    return {"status": {"conditions": [fields]}}


def on_crossplane(status, generation, reason="Draining"):
    """Conditions of functions have no generation there; Crossplane's own do."""
    drained = condition(status, reason=reason)["status"]["conditions"][0]
    synced = {"type": "Synced", "status": "True", "observedGeneration": generation}
    plain = {name: value for name, value in drained.items() if name != "observedGeneration"}
    return {"status": {"conditions": [synced, plain]}}


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({}, (False, "waiting for the control plane")),
        (condition("True", generation=2), (False, "waiting for the control plane")),
        (condition("False"), (False, "Draining: 1 of 2")),
        (condition("True", reason="Drained"), (True, "Drained: 1 of 2")),
        (on_crossplane("True", 2), (False, "waiting for the control plane")),
        (on_crossplane("False", 3), (False, "Draining: 1 of 2")),
        (on_crossplane("True", 3, reason="Drained"), (True, "Drained: 1 of 2")),
    ],
)
def test_progress_is_that_of_this_drain(cluster, expected):
    assert progress(cluster, 3) == expected


def test_waiting_tells_each_change_once_and_ends_with_the_drain(capsys):
    seen = iter([condition("False"), condition("False"), condition("True", reason="Drained")])
    assert wait(lambda: next(seen), 3, None) == 0
    assert capsys.readouterr().out.splitlines() == ["Draining: 1 of 2", "Drained: 1 of 2"]
    assert wait(lambda: condition("False"), 3, 0.0) == 3


def test_without_a_plane_it_says_how_to_start_one(tmp_path):
    with pytest.raises(NotFoundError, match="no plane runs with"):
        drain.run(parsed("cluster", "east", "--data", str(tmp_path)))


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_a_running_plane_drains_what_it_is_told(tmp_path, capsys):
    def command(*words, where=("--data", str(tmp_path))):
        code = drain.run(parsed(*words, *where))
        return code, capsys.readouterr().out

    async def main():
        quick = ClusterSettings(pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with Plane(PlaneSettings(data=tmp_path, cluster=quick)) as plane:
            for path in sorted(EXAMPLES.glob("[12]-*.yaml")):
                for manifest in yaml.safe_load_all(path.read_text()):
                    plane.store.create(admitted(manifest))
            code, said = await asyncio.to_thread(command, "cluster", "east", "--deadline", "5m", "--wait")
            assert (code, said.splitlines()[-1]) == (0, "Drained: 0 of 0 replicas are left")
            kubeconfig = ("--kubeconfig", str(tmp_path / "kubeconfig"))
            await asyncio.to_thread(command, "pool", "west/h200", "--at-a-time", "2", where=kubeconfig)
            specs = {
                row["metadata"]["name"]: row["spec"] for row in plane.store.list("modelplane.ai", "InferenceCluster")
            }
            assert (specs["east"]["drain"], specs["west"]["nodePools"][0]["drain"]) == (
                {"deadlineSeconds": 300, "parallelism": 4},
                {"parallelism": 2},
            )
            code, said = await asyncio.to_thread(command, "cluster", "east", "--abort")
            assert re.fullmatch("the drain of cluster east is ended; .*\n", said)
            east = plane.store.list("modelplane.ai", "InferenceCluster")[0]
            assert "drain" not in east["spec"]
            with pytest.raises(NotFoundError, match="south"):
                await asyncio.to_thread(command, "cluster", "south")

    asyncio.run(main())
