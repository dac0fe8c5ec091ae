"""`modelplane simulate`, as it is typed."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.cli import main
from modelplane.cli.manifests import read_documents
from modelplane.plane.plane import Plane, PlaneSettings

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = str(ROOT / "examples" / "quickstart")
READY_MADE = sorted((ROOT / "examples" / "simulate").glob("*.yaml"))
DAY_CPU_S = 60.0
"""Far above what it takes, on a machine that does other things as well."""


def run(capsys, *words):
    code = main(["simulate", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_story_and_the_table(capsys):
    code, out, _ = run(capsys, "-f", QUICKSTART, "--step", "30 drain cluster east", "--seconds", "120")
    lines = out.splitlines()
    assert code == 0
    assert "   30.0 s  drain cluster east" in lines
    assert [line.split() for line in lines[-4:-2]] == [
        ["DEPLOYMENT", "REPLICAS", "PLACED", "SERVING", "CLUSTERS", "GPU", "HOURS", "COST", "STATE"],
        ["default/qwen3-8b", "2", "2", "2", "west", "2", "0.1", "0.73", "USD", "Ready"],
    ]
    assert lines[-1] == "0.1 GPU hours, 0.73 USD for deployments, 11.26 USD for all nodes"


def test_clusters_on_clouds_are_taken_as_made(capsys):
    code, out, _ = run(capsys, "-f", str(Path(QUICKSTART).with_name("platform")), "--seconds", "60")
    assert (code, out.splitlines()[-3].split()[:4]) == (0, ["default/llama-70b", "4", "4", "4"])


def test_manifests_in_the_place_of_a_scenario_are_known(capsys):
    says = f"modelplane simulate: {QUICKSTART}: these are manifests and no scenario; -f takes them\n"
    assert run(capsys, QUICKSTART) == (1, "", says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--seconds -5", "argument --seconds: '-5' is no time; write 90s, 30m or 2h"),
        ("--seconds 0", "argument --seconds: 0 is no time that a fleet can run"),
        ("--worlds 0", "argument --worlds: '0' is no number of worlds"),
    ],
)
def test_what_cannot_run_is_wrong_usage(capsys, words, says):
    with pytest.raises(SystemExit, match="2"):
        run(capsys, "-f", QUICKSTART, *words.split())
    assert says in capsys.readouterr().err


def scenario(tmp_path, text):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return str(path)


def test_a_scenario_file_as_json(capsys, tmp_path):
    path = scenario(tmp_path, "duration: 100\nsteps:\n- 20 double default/qwen3-8b\n")
    code, out, _ = run(capsys, path, "-f", QUICKSTART, "-o", "json", "--seed", "3")
    found = json.loads(out)
    assert (code, found["seed"], found["quiet"], found["violation"]) == (0, 3, True, "")
    assert [(each["wanted"], each["serving"]) for each in found["deployments"]] == [(4, 4)]
    assert [20.0, "double default/qwen3-8b"] in found["story"]
    assert found["steps"][0]["summary"].startswith(
        "replicas of default/qwen3-8b doubled at 00:00:20: 2 replicas placed on east (1), west (1), all 4 ready after "
    )


def typed(*words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "random"}
    done = subprocess.run(
        [sys.executable, "-m", "modelplane", "simulate", *words],
        capture_output=True, text=True, check=False, env=environment, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_scenario_for_each_of_these():
    assert [path.stem for path in READY_MADE] == [
        "a-day", "add-a-pool", "double-the-traffic", "lose-a-region", "roll-a-model"
    ]  # fmt: skip


SENTENCES = {
    "a-day": [
        "west drained at 04:00: 1 of 2 replicas moved to east, none of N requests lost",
        "drain of west ended at 05:00: no replica moved, none of N requests lost",
        (
            "default/qwen3-8b scaled to 4 at 07:30: 2 replicas placed on west, all 4 ready after 61 s, "
            "none of N requests lost"
        ),
        "default/qwen3-8b scaled to 2 at 20:00: 2 of 4 replicas gone and not replaced, none of N requests lost",
    ],
    "add-a-pool": [
        (
            "default/qwen3-8b scaled to 36 at 00:02: 30 replicas placed on east (15), west (15), "
            "4 of 36 not ready at 00:04, none of N requests lost"
        ),
        (
            "traffic of default/chat set to 50 times its curve at 00:04: no replica moved, "
            "4 of 36 not ready at 00:10, N requests shed, TTFT p95 49 ms before and 20.1 s after"
        ),
        (
            "pool east/more added (1 x h200-8x) at 00:10: 4 replicas placed on east, all 36 ready after 63 s, "
            "N requests shed"
        ),
    ],
    "double-the-traffic": [
        "traffic of default/chat set to 2 times its curve at 00:05: no replica moved, none of N requests lost",
        (
            "traffic of default/chat set to 4 times its curve at 00:10: no replica moved, N requests shed, "
            "TTFT p95 50 ms before and 20.1 s after"
        ),
    ],
    "lose-a-region": [
        "region us-east lost at 00:05: 1 of 2 replicas moved to west, all 2 ready after 361 s, N requests failed",
        "region us-east back at 00:15: no replica moved, none of N requests lost",
    ],
    "roll-a-model": [
        (
            "default/qwen3-8b scaled to 4 at 00:02: 2 replicas placed on east (1), west (1), "
            "all 4 ready after 61 s, none of N requests lost"
        ),
        (
            "default/qwen3-8b rolled to vllm/vllm-openai:v0.28.0 at 00:05: no replica moved, "
            "all 4 ready after 257 s, none of N requests lost"
        ),
    ],
}
"""Without the numbers of requests, which are drawn."""


@pytest.mark.submission
@pytest.mark.slow
@pytest.mark.parametrize("path", READY_MADE, ids=lambda path: path.stem)
def test_the_ready_made_scenarios(path, tmp_path):
    """In two processes: what a set or a hash orders would differ between them."""
    before = os.times().children_user
    first = typed(str(path), "-o", "json", "--report", str(tmp_path / "report.html"))
    assert os.times().children_user - before < DAY_CPU_S
    if path.stem != "a-day":
        assert typed(str(path), "-o", "json") == first
    found = json.loads(first)
    told = [re.sub(r"\d+ requests", "N requests", step["summary"]) for step in found["steps"]]
    assert told == SENTENCES[path.stem]
    assert (tmp_path / "report.html").read_text().count("<svg") == 3


def test_two_scenarios_are_compared(capsys, tmp_path):
    calm = scenario(tmp_path, f"fleet: {{manifests: [{QUICKSTART}]}}\nduration: 400\n")
    lost = tmp_path / "lost.yaml"
    lost.write_text(Path(calm).read_text() + "steps: [20 lose cluster east]\n")
    code, out, _ = run(capsys, calm, str(lost), "-o", "json")
    rows = {row["what"]: row for row in json.loads(out)["comparison"]}
    assert (code, rows["slowest recovery"]["before"], rows["slowest recovery"]["verdict"]) == (0, 0.0, "worse")
    assert rows["replicas moved"]["after"] == 1.0

    code, out, _ = run(capsys, calm, "-o", "json")
    (tmp_path / "calm.json").write_text(out)
    code, out, _ = run(capsys, str(lost), "--against", str(tmp_path / "calm.json"))
    assert (code, ["replicas", "moved", "0", "1", "worse"] in [line.split() for line in out.splitlines()]) == (0, True)
    code, out, _ = run(capsys, calm, "--against", str(tmp_path / "calm.json"))
    verdicts = {
        line.split()[-1] for line in out.partition("FIGURE")[2].splitlines()[1:] if line.endswith(("same", "e"))
    }
    assert (code, verdicts - {"same"}) == (0, set())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["none.yaml"], "none.yaml: No such file or directory"),
        (["a.yaml", "b.yaml", "c.yaml"], "give one scenario with --against, or two scenarios"),
        (["a.yaml", "b.yaml", "--against", "c.json"], "give one scenario with --against, or two scenarios"),
        (
            ["-f", QUICKSTART, "--seconds", "1", "--against", QUICKSTART + "/3-model.yaml"],
            "3-model.yaml: is not the JSON",
        ),
        (["--report", "x.html"], "steps need a fleet"),
    ],
)
def test_words_that_are_refused(capsys, words, problem):
    code, _, err = run(capsys, *words)
    assert (code, problem in err) == (1, True), err


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
        ("steps: 7", "scenario.yaml: steps: is not a list"),
        ("duration: soon", "scenario.yaml: duration: is 'soon'"),
        ("step: []", "scenario.yaml: step: unknown field"),
        ("- a", "scenario.yaml: the document: is not an object"),
        ("a: 1\n---\nb: 2", "scenario.yaml: a scenario is one document, and not 2"),
        ("steps: [60 hop]", "scenario.yaml: steps[0]: step `hop` is none of"),
        ("traffic: [{service: chat}]", "scenario.yaml: traffic[0]: give either curve or requestsPerSecond"),
        (
            "traffic: [{service: nobody, requestsPerSecond: 1}]",
            "traffic[0].service: there is no ModelService default/nobody",
        ),
    ],
)
def test_scenarios_that_are_refused(capsys, tmp_path, text, problem):
    code, _, err = run(capsys, scenario(tmp_path, text), "-f", QUICKSTART)
    assert (code, problem in err, err.count("\n")) == (1, True, 1), err


def test_a_scenario_needs_a_fleet(capsys, tmp_path):
    code, _, err = run(capsys, scenario(tmp_path, "duration: 60"))
    assert (code, err.partition("fleet: ")[2]) == (1, "is missing; give manifests, kubeconfig or data, or -f\n")


def test_steps_need_a_fleet_and_manifests_are_reviewed(capsys, tmp_path):
    code, _, err = run(capsys, "--step", "60 lose cluster east")
    assert (code, err) == (
        1,
        "modelplane simulate: steps need a fleet: give its manifests with -f, or a plane with --data or --kubeconfig\n",
    )
    path = tmp_path / "wrong.yaml"
    path.write_text("apiVersion: modelplane.ai/v1alpha1\nkind: InferenceClass\nmetadata: {name: a}\nspec: {nope: 1}\n")
    code, _, err = run(capsys, "-f", str(path))
    assert (code, f"`modelplane validate -f {path}` shows all" in err) == (1, True)


async def of_plane(data, *words):
    """What `simulate` prints about a fleet that a real plane holds."""
    async with Plane(PlaneSettings(data=data, engine_speed=50)) as plane:
        plane.apply(read_documents([QUICKSTART]))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "modelplane", "simulate", "-o", "json", "--seconds", "120", *words,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment,
        )  # fmt: skip
        out, err = await process.communicate()
        assert process.returncode == 0, err
        return json.loads(out)


@pytest.mark.submission
@pytest.mark.e2e
@pytest.mark.parametrize("how", ["data", "kubeconfig", "scenario"])
def test_the_fleet_of_a_plane_that_runs(tmp_path, how):
    written = tmp_path / "scenario.yaml"
    traffic = "traffic: [{service: chat, requestsPerSecond: 2}]"
    written.write_text(f"fleet: {{data: plane}}\n{traffic}\n" if how == "scenario" else traffic)
    data = tmp_path / "plane"
    words = {"data": ["--data", str(data)], "kubeconfig": ["--kubeconfig", str(data / "kubeconfig")], "scenario": []}
    found = asyncio.run(of_plane(data, str(written), *words[how]))
    assert [(each["deployment"], each["serving"], each["clusters"]) for each in found["deployments"]] == [
        ("default/qwen3-8b", 2, {"east": 1, "west": 1})
    ]
    assert found["services"][0]["counts"]["served"] > 100
