"""The first commands that people type, as the help spells them, in the root of the repository.

What the help teaches runs as real processes; tables of spellings run in this one, since a process takes seconds.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.cli import main

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("modelplane")
ASIDE = {"demo", "up"}
"""Commands of the help that other tests start and stop."""


def typed(*words, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in {"KUBECONFIG", "MODELPLANE_DATA"}}
    return subprocess.run(
        [PROGRAM, *words],
        cwd=ROOT,
        env={**kept, **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def here(monkeypatch, capfd):
    """The same in this process: the exit code, what is printed, and what is complained about."""
    monkeypatch.chdir(ROOT)
    for name in ("KUBECONFIG", "MODELPLANE_DATA"):
        monkeypatch.delenv(name, raising=False)

    def run(*words):
        try:
            code = main(list(words))
        except SystemExit as end:
            code = end.code
        return code, *capfd.readouterr()

    return run


def taught(help_text):
    """The commands below `start here:`, without what they say about them."""
    lines = re.search(r"start here:\n((?:  .*\n)+)", help_text)[1].splitlines()
    return [re.split(r"  +", line.strip())[0].split()[1:] for line in lines]


WARNED = "1 warning about the manifests; `modelplane validate -f {}` shows them\n"
"""A Secret is never among the files of an example."""


@pytest.mark.submission
def test_the_commands_of_the_help_work():
    commands = taught(typed("--help").stdout)
    assert {words[0] for words in commands} == {"demo", "validate", "plan", "up"}
    for words in commands:
        if words[0] not in ASIDE:
            done = typed(*words)
            assert (done.returncode, done.stderr) in {(0, ""), (0, WARNED.format("examples/"))}, (words, done.stdout)


def test_the_examples_share_objects_that_are_the_same():
    shown = typed("validate", "-f", "examples/")
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (
        0,
        "30 objects, 0 problems, 1 warning (not checked: 5 Scenario)",
    )
    assert re.findall(r"warning: (\S+):", shown.stdout) == ["ModelDeployment/llama-3-8b"]
    gateway = "InferenceGateway/default"
    shared = [gateway, gateway, "InferenceClass/h200-8x", gateway, gateway]
    assert re.findall(r"note: (\S+):", shown.stdout) == shared


@pytest.mark.parametrize(
    "spelled",
    [
        ["deployment", "qwen3-8b"],
        ["deployment/qwen3-8b"],
        ["md/qwen3-8b"],
        ["md", "qwen3-8b"],
        ["ModelDeployment", "qwen3-8b"],
        ["modeldeployments", "qwen3-8b"],
        ["modeldeployments.modelplane.ai/qwen3-8b"],
    ],
)
def test_kinds_are_spelled_as_for_kubectl(here, spelled):
    code, shown, complaints = here("explain", *spelled, "-f", "examples/quickstart")
    assert (code, complaints) == (0, "")
    assert shown.startswith("default/qwen3-8b: FitsNow: 2 of 2 replicas are placed")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["explain", "modeldeploymnet", "a"], 1, "'modeldeploymnet' is not a kind of this command; did you mean"),
        (["explain", "pod/a"], 1, "'pod' is not a kind of this command; use deployment, replica or cluster"),
        (["explain", "a"], 1, "'a' is not KIND NAME or KIND/NAME, such as deployment/NAME"),
        (["explain", "md/a", "b"], 1, "'md/a b' is not KIND NAME or KIND/NAME"),
        (["explain", "mr/a"], 1, "there is no ModelReplica a"),
        (["statsu"], 2, "invalid choice: 'statsu'; did you mean 'status'?"),
        (["valdiate", "-f", "examples/"], 2, "did you mean 'validate'?"),
    ],
)
def test_what_is_misspelled_is_told_with_a_guess(here, words, code, says):
    given = ["-f", "examples/quickstart"] if words[0] == "explain" else []
    ended, _, complaints = here(*words, *given)
    assert (ended, says in complaints, "Traceback" in complaints) == (code, True, False), complaints


def test_a_plane_that_does_not_run_leaves_a_plan_to_its_manifests(tmp_path):
    done = typed("plan", "-f", "examples/quickstart", MODELPLANE_DATA=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == f"no plane runs with the data folder {tmp_path}: the manifests are taken alone\n"
    assert typed("plan", "-f", "examples/quickstart", "--offline", MODELPLANE_DATA=str(tmp_path)).stderr == ""


def test_the_data_folder_of_the_readme_is_not_for_git():
    asked = ["git", "check-ignore", "plane/kubeconfig", "src/modelplane/plane/plane.py"]
    done = subprocess.run(asked, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.stdout.split() == ["plane/kubeconfig"] or "not a git repository" in done.stderr


NEVER = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {name: a}
spec:
  replicas: 1
  nodeSelector:
    devices:
    - {name: gpu, count: 1, selectors: [{cel: 'device.driver == "gpu.nvidia.com"'}]}
  workers:
    topology: {tensor: 8}
    template: {spec: {containers: [{name: engine, image: i, args: [m]}]}}
"""


def test_what_can_never_run_is_refused_by_validate_and_by_plan(tmp_path):
    file = tmp_path / "never.yaml"
    file.write_text(NEVER)
    line = f"{file}:10: ModelDeployment/a: spec.workers.topology.tensor: tensor 8 needs 8 devices in a pod"
    checked = typed("validate", "-f", str(file))
    assert (checked.returncode, checked.stdout.startswith(line)) == (1, True)
    planned = typed("plan", "-f", str(file), "examples/quickstart")
    assert (planned.returncode, planned.stderr.startswith(f"modelplane plan: {line}")) == (1, True)


def test_a_plan_tells_that_there_are_warnings():
    done = typed("plan", "-f", "examples/quickstart", "examples/gated")
    assert (done.returncode, done.stderr) == (0, WARNED.format("examples/quickstart examples/gated"))
