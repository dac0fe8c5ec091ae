"""`modelplane simulate`, as it is typed."""

import json
from pathlib import Path

import pytest

from modelplane.cli import main

QUICKSTART = str(Path(__file__).resolve().parents[2] / "examples" / "quickstart")


def run(capsys, *words):
    code = main(["simulate", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_story_and_the_table(capsys):
    code, out, _ = run(capsys, "-f", QUICKSTART, "--step", "30 drain cluster east", "--seconds", "120")
    lines = out.splitlines()
    assert code == 0
    assert "   30.0 s  drain cluster east" in lines
    assert [line.split() for line in lines[-2:]] == [
        ["DEPLOYMENT", "REPLICAS", "PLACED", "SERVING", "CLUSTERS", "STATE"],
        ["default/qwen3-8b", "2", "2", "2", "west", "2", "Ready"],
    ]


def test_clusters_on_clouds_are_taken_as_made(capsys):
    code, out, _ = run(capsys, "-f", str(Path(QUICKSTART).with_name("platform")), "--seconds", "60")
    assert (code, out.splitlines()[-1].split()[:4]) == (0, ["default/llama-70b", "4", "4", "4"])


def test_a_scenario_file_as_json(capsys, tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text("seconds: 100\nsteps:\n- 20 double default/qwen3-8b\n")
    code, out, _ = run(capsys, "-f", QUICKSTART, "--scenario", str(path), "-o", "json", "--seed", "3")
    found = json.loads(out)
    assert (code, found["seed"], found["quiet"], found["violation"]) == (0, 3, True, "")
    assert [(each["wanted"], each["serving"]) for each in found["rows"]] == [(4, 4)]
    assert [20.0, "double default/qwen3-8b"] in found["story"]


def test_a_fleet_that_is_not_at_rest_says_so(capsys):
    code, out, _ = run(capsys, "-f", QUICKSTART, "--seconds", "31", "--step", "25 double default/qwen3-8b")
    assert (code, out.splitlines()[-1]) == (3, "the fleet had not come to rest at the end; --seconds gives it longer")


def test_a_drawn_world_is_told_by_its_number(capsys):
    code, out, _ = run(capsys, "--seed", "1")
    assert (code, out.splitlines()[0]) == (0, "world 1:")
    code, out, _ = run(capsys, "--seed", "1", "-o", "json")
    assert (code, json.loads(out)["seed"]) == (0, 1)


@pytest.mark.slow
def test_many_worlds(capsys):
    code, out, _ = run(capsys, "--worlds", "2", "--seed", "1")
    assert "2 worlds, " in out
    assert code == 1  # two worlds do not hit every probe


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("steps: 7", "steps is not a list"),
        ("seconds: soon", "seconds is not a number"),
        ("step: []", "unknown field 'step'"),
        ("- a", "a scenario is one document"),
        ("steps: [60 dance]", "step `dance` is none of"),
    ],
)
def test_scenarios_that_are_refused(capsys, tmp_path, text, problem):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    code, _, err = run(capsys, "-f", QUICKSTART, "--scenario", str(path))
    assert (code, problem in err, err.count("\n")) == (1, True, 1)


def test_steps_need_a_fleet_and_manifests_are_reviewed(capsys, tmp_path):
    code, _, err = run(capsys, "--step", "60 lose cluster east")
    assert (code, err) == (1, "modelplane simulate: steps need a fleet: give its manifests with -f\n")
    path = tmp_path / "wrong.yaml"
    path.write_text("apiVersion: modelplane.ai/v1alpha1\nkind: InferenceClass\nmetadata: {name: a}\nspec: {nope: 1}\n")
    code, _, err = run(capsys, "-f", str(path))
    assert (code, "`modelplane validate` shows all" in err) == (1, True)
