"""The commands on files, with their exit codes."""

import argparse
import importlib
import json
import time
from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import InputError, NotFoundError

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


def run(command, *words):
    module = importlib.import_module(f"modelplane.cli.{command}")
    parser = argparse.ArgumentParser()
    module.configure(parser)
    return module.run(parser.parse_args([str(word) for word in words]))


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "snapshot.yaml"
    assert run("fleet", "snapshot", "-f", QUICKSTART, "-o", path) == 0
    return path


@pytest.fixture
def model(tmp_path):
    """The quickstart's model with something changed."""

    def write(old, new):
        path = tmp_path / "model.yaml"
        path.write_text((QUICKSTART / "3-model.yaml").read_text().replace(old, new))
        return path

    return write


def test_plan_prints_a_table_and_a_price(capsys):
    assert run("plan", "-f", QUICKSTART) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split()[:5] == ["ACTION", "DEPLOYMENT", "CLUSTER", "POOLS", "REPLICA"]
    assert "default/qwen3-8b: FitsNow" in printed
    assert "total: 21.20 USD an hour" in printed


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_plan_prints_its_documented_shape(capsys, output):
    assert run("plan", "-f", QUICKSTART, "-o", output) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert list(printed) == ["answer", "pricePerHour", "deployments"]
    assert printed["deployments"][0]["rows"][0]["cluster"] == "east"


def test_plan_of_objects_without_a_namespace_is_for_the_one_that_is_given(capsys, tmp_path):
    (tmp_path / "fleet.yaml").write_text(
        "\n---\n".join(path.read_text().replace("namespace: default", "") for path in sorted(QUICKSTART.glob("*.yaml")))
    )
    for words, namespace in (((), "default"), (("-n", "team"), "team")):
        assert run("plan", "-f", tmp_path / "fleet.yaml", "-o", "json", *words) == 0
        (found,) = json.loads(capsys.readouterr().out)["deployments"]
        assert found["deployment"] == f"{namespace}/qwen3-8b"


def test_plan_on_a_snapshot_says_what_waits_and_exits_with_3(capsys, snapshot, model):
    assert run("plan", "-f", model("count: 1", "count: 9"), "--fleet", snapshot) == 3
    printed = capsys.readouterr().out
    assert "needs 9 x gpu; a node has 8 x gpu" in printed
    assert "FitsNowhere" in printed


def test_rows_about_those_that_wait_say_how_many(capsys, snapshot, model):
    assert run("plan", "-f", model("replicas: 2", "replicas: 1000"), "--fleet", snapshot, "-o", "json") == 3
    printed = json.loads(capsys.readouterr().out)
    (waits,) = [row for row in printed["deployments"][0]["rows"] if row["action"] == "wait"]
    assert waits.keys() == {"action", "deployment", "replicas", "reason"}
    assert waits["replicas"] + sum(row["action"] == "place" for row in printed["deployments"][0]["rows"]) == 1000
    assert run("plan", "-f", model("count: 1", "count: 9"), "--fleet", snapshot, "-o", "json") == 3
    (only,) = json.loads(capsys.readouterr().out)["deployments"][0]["rows"]
    assert (only["action"], only["replicas"]) == ("wait", 2)


def test_plan_can_refuse_to_count_on_scale_up(capsys, tmp_path):
    for name in ("1-hardware.yaml", "3-model.yaml"):
        (tmp_path / name).write_text((QUICKSTART / name).read_text().replace("count: 1", "count: 8"))
    clusters = (QUICKSTART / "2-clusters.yaml").read_text()
    (tmp_path / "2.yaml").write_text(clusters.replace("nodeCount: 2", "nodeCount: 0, minNodeCount: 0, maxNodeCount: 2"))
    assert run("plan", "-f", tmp_path) == 0
    assert run("plan", "-f", tmp_path, "--without-scale-up") == 3
    assert "FitsAfterScaleUp" in capsys.readouterr().out


def test_plan_of_nothing_is_refused(tmp_path):
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    with pytest.raises(InputError, match=r"no manifest is in .*empty\.yaml"):
        run("plan", "-f", tmp_path / "empty.yaml")


def test_plan_refuses_what_an_api_server_would(model):
    with pytest.raises(InputError, match=r"model.yaml:\d+: ModelDeployment/qwen3-8b: spec.replicas"):
        run("plan", "-f", model("replicas: 2", "replicas: two"))


def test_explain_prints_every_candidate(capsys, snapshot):
    assert run("explain", "deployment", "qwen3-8b", "--fleet", snapshot) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["VERDICT", "CLUSTER", "POOL", "SCORE", "WHY"]
    assert run("explain", "deployment", "qwen3-8b", "--fleet", snapshot, "-o", "json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(c["cluster"], c["verdict"]) for c in printed["candidates"]] == [("east", "Chosen"), ("west", "Chosen")]


def test_explain_of_one_that_waits_exits_with_3(capsys, snapshot, model):
    words = ("deployment", "qwen3-8b", "-f", model("80Gi", "800Gi"), "--fleet", snapshot)
    assert run("explain", *words) == 3
    assert "Devices: needs 1 x gpu" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("explain", "deployment", "qwen3-8b"), ("fleet", "snapshot")])
def test_without_files_the_plane_of_this_machine_is_asked(tmp_path, monkeypatch, words):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match=f"data folder {tmp_path}/modelplane; .*`modelplane up --data"):
        run(*words)
    with pytest.raises(NotFoundError, match=f"data folder {tmp_path}/other"):
        run(*words, "--data", tmp_path / "other")


PACKED = """\
kind: PlacementProfile
plugins:
- {type: ClusterReady}
- {type: Devices}
- {type: Capacity}
- {type: headroom, weight: 0}
- {type: best-first}
"""


def test_a_profile_says_which_plugins_place_and_a_snapshot_keeps_it(capsys, tmp_path):
    profile, path = tmp_path / "profile.yaml", tmp_path / "snapshot.yaml"
    profile.write_text(PACKED)
    assert run("plan", "-f", QUICKSTART, "--profile", profile, "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)["deployments"][0]["rows"]
    assert [row["cluster"] for row in rows] == ["east", "east"]
    assert run("fleet", "snapshot", "-f", QUICKSTART, "--profile", profile, "-o", path) == 0
    assert run("replay", path) == 0
    assert "east/h200#1 New" in capsys.readouterr().out
    assert run("explain", "deployment", "qwen3-8b", "--fleet", path, "-o", "json") == 0
    assert {found["cluster"] for found in json.loads(capsys.readouterr().out)["rows"]} == {"east"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: PlacementProfile\nplugins: [{type: Capacity}]", "exactly one picker is needed"),
        ("kind: PlacementProfile\nplugins: [{type: best-first}]", "Devices and Capacity cannot be left out"),
        ("[1]", "expected one PlacementProfile"),
        ("kind: Pod\nplugins: []", "this is a Pod, not a PlacementProfile"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(tmp_path, text, says):
    profile = tmp_path / "profile.yaml"
    profile.write_text(text)
    with pytest.raises(InputError, match=says):
        run("plan", "-f", QUICKSTART, "--profile", profile)


def test_replay_says_same_and_differs(capsys, snapshot, tmp_path):
    assert run("replay", snapshot) == 0
    other = tmp_path / "other.yaml"
    other.write_text(snapshot.read_text().replace("nodes: 2", "nodes: 0"))
    assert run("replay", other, "-o", "yaml") == 3
    printed = capsys.readouterr().out
    assert "same" in printed
    assert "same: false" in printed


def test_replay_takes_one_snapshot_only(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text("kind: FleetSnapshot\n---\nkind: FleetSnapshot\n")
    with pytest.raises(InputError, match="expected one FleetSnapshot"):
        run("replay", path)


def test_a_snapshot_can_be_written_to_standard_output_and_not_to_nowhere(capsys, tmp_path):
    assert run("fleet", "snapshot", "-f", QUICKSTART) == 0
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "FleetSnapshot"
    with pytest.raises(InputError, match="No such file"):
        run("fleet", "snapshot", "-f", QUICKSTART, "-o", tmp_path / "no" / "such")


def test_plan_on_a_snapshot_sees_edits_of_clusters(capsys, snapshot, model, tmp_path):
    many = model("replicas: 2", "replicas: 40")
    assert run("plan", "-f", many, "--fleet", snapshot) == 3
    (text,) = [path.read_text() for path in QUICKSTART.glob("*.yaml") if "kind: InferenceCluster" in path.read_text()]
    assert "nodeCount: 2" in text
    edited = tmp_path / "clusters.yaml"
    edited.write_text(text.replace("nodeCount: 2", "nodeCount: 20"))
    assert run("plan", "-f", many, edited, "--fleet", snapshot) == 0
    assert "FitsNow" in capsys.readouterr().out


def test_a_snapshot_is_of_the_present_or_of_the_moment_that_is_given(capsys):
    before = time.time()
    assert run("fleet", "snapshot", "-f", QUICKSTART) == 0
    assert before <= yaml.safe_load(capsys.readouterr().out)["now"] <= time.time()
    for given in ("2026-01-01T00:00:00Z", "1767225600"):
        assert run("fleet", "snapshot", "-f", QUICKSTART, "--now", given) == 0
        assert yaml.safe_load(capsys.readouterr().out)["now"] == 1767225600.0
    with pytest.raises(SystemExit):
        run("fleet", "snapshot", "-f", QUICKSTART, "--now", "noon")
    assert "noon is neither a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("now", "moves"),
    [
        pytest.param("2026-01-01T00:01:00Z", False, id="within its grace"),
        pytest.param("2026-01-01T00:10:00Z", True, id="beyond its grace"),
    ],
)
def test_explain_lets_a_grace_period_run_out(capsys, snapshot, tmp_path, now, moves):
    document = yaml.safe_load(snapshot.read_text())
    planned = document["clusters"][0]
    condition = {"type": "Ready", "status": "False", "reason": "X", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    planned["status"]["conditions"] = [condition]
    devices = [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 1}]
    pool = planned["status"]["gpuPools"][0]["name"]
    pod = {"spec": {"containers": [{"name": "engine", "image": "i"}]}}
    members = [{"role": "Standalone", "nodePoolName": pool, "deviceRequests": devices, "template": pod}]
    document["replicas"] = [
        {
            "kind": "ModelReplica",
            "metadata": {"name": "r", "namespace": "default"},
            "spec": {
                "clusterName": planned["metadata"]["name"],
                "index": 0,
                "deployment": {"name": "qwen3-8b"},
                "engines": [{"name": "main", "members": members}],
            },
        }
    ]
    path = tmp_path / "failed.yaml"
    path.write_text(yaml.safe_dump(document))
    run("explain", "deployment", "qwen3-8b", "--fleet", path, "--now", now, "-o", "json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert any("not been ready for more than 300 s" in row.get("reason", "") for row in rows) is moves
