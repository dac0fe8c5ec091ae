"""`modelplane sim`: what a command line asks for, and a running plane that does it."""

import argparse
import asyncio
from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import NotFoundError
from modelplane.cli import sim
from modelplane.plane.apply import admitted
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.sim.cluster import ClusterSettings
from tests.support.waiting import until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


def parsed(*words):
    parser = argparse.ArgumentParser(prog="modelplane sim")
    sim.configure(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fail cluster east", ("fail-cluster", "east", "", "")),
        ("recover cluster east", ("recover-cluster", "east", "", "")),
        ("lose node east h200-0", ("lose-node", "east", "h200-0", "")),
        ("drain node east h200-0", ("drain-node", "east", "h200-0", "")),
        ("crash pod east team/p", ("crash-pod", "east", "team/p", "")),
        ("node-loss east h200-0", ("lose-node", "east", "h200-0", "")),
        ("slow-load east 60", ("slow-load", "east", "", "60")),
        ("slow-pull east off", ("slow-pull", "east", "", "off")),
        ("faults east error_rate=0.1 stalled", ("faults", "east", "", "error_rate=0.1,stalled")),
        ("faults east off --pod team/p", ("faults", "east", "team/p", "off")),
        ("stock-out east h200", ("stock-out", "east", "h200", "0")),
        ("stock-out east h200 --nodes 2", ("stock-out", "east", "h200", "2")),
        ("restock east h200", ("stock-out", "east", "h200", "off")),
        ("quota east off", ("quota", "east", "", "off")),
        ("fail east", ("fail-cluster", "east", "", "")),
        ("recover east", ("recover-cluster", "east", "", "")),
        ("lose east h200-0", ("lose-node", "east", "h200-0", "")),
        ("crash east team/p", ("crash-pod", "east", "team/p", "")),
        ("oom pod east team/p", ("oom-pod", "east", "team/p", "")),
        ("image add east acme/e", ("image-add", "east", "acme/e", "")),
        ("image add east acme/e --pull-secret key", ("image-add", "east", "acme/e", "key")),
        ("image remove east acme/e:1", ("image-remove", "east", "acme/e:1", "")),
        ("image list east", ("image-list", "east", "", "")),
        ("flag add east my-option", ("flag-add", "east", "my-option", "")),
        ("flag remove east max-num-seqs", ("flag-remove", "east", "max-num-seqs", "")),
        ("secret add east team/hf A=b C=d", ("secret-add", "east", "team/hf", "A=b\nC=d")),
        ("secret add east team/key", ("secret-add", "east", "team/key", "")),
        ("secret remove east team/hf", ("secret-remove", "east", "team/hf", "")),
        ("resource-quota east team pods=2", ("resource-quota", "east", "team", "pods=2")),
        ("foreign east --pool h200", ("foreign", "east", "h200", "1x1")),
        ("foreign east --pool h200 --gpus 2 --count 0", ("foreign", "east", "h200", "2x0")),
    ],
)
def test_what_a_command_line_asks_for(words, expected):
    ask = sim.command_of(parsed(*words.split()))
    assert (ask["verb"], ask["cluster"], ask["name"], ask["value"]) == expected


@pytest.mark.parametrize(
    "words",
    [
        "",
        "fail",
        "fail cluster",
        "fail node east",
        "lose node east",
        "lose east",
        "quota east",
        "image add east",
        "foreign east",
    ],
)
def test_what_is_incomplete_is_wrong_usage(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        parsed(*words.split())
    assert "usage: modelplane sim" in capsys.readouterr().err


def test_without_a_plane_it_says_how_to_start_one(tmp_path):
    with pytest.raises(NotFoundError, match="no plane runs with"):
        sim.run(parsed("fail", "cluster", "east", "--data", str(tmp_path)))


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_a_running_plane_does_as_it_is_told(tmp_path, capsys):
    def command(*words):
        sim.run(parsed(*words, "--data", str(tmp_path)))
        return capsys.readouterr().out

    async def main():
        quick = ClusterSettings(pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with Plane(PlaneSettings(data=tmp_path, cluster=quick)) as plane:
            for path in sorted(EXAMPLES.glob("[12]-*.yaml")):
                for manifest in yaml.safe_load_all(path.read_text()):
                    plane.store.create(admitted(manifest))
            await until(lambda: plane.clusters.get("east") is not None and plane.clusters.get("east").reachable)
            shown = await asyncio.to_thread(command, "show", "east")
            assert "h200-0" in shown
            said = await asyncio.to_thread(command, "fail", "cluster", "east")
            assert said.startswith("cluster east failed")
            for words, says in {
                "fail cluster south": "InferenceCluster south not found; there is east, west",
                "show eest": "InferenceCluster eest not found; did you mean east?",
                "lose node west h200-7": "cluster west has no node h200-7; did you mean h200-",
            }.items():
                with pytest.raises(NotFoundError) as refused:
                    await asyncio.to_thread(command, *words.split())
                assert says in str(refused.value)
            await until(lambda: not plane.clusters.get("east").reachable)

    asyncio.run(main())
