"""`modelplane get|describe|apply|delete|scale|wait|events`: their words, and a running plane that does it."""

import argparse
import asyncio
import json
import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from modelplane import __version__
from modelplane.api.errors import InputError
from modelplane.cli import main
from modelplane.cli._formats import duration_s
from modelplane.cli._kinds import kinds_of_word, read_name, read_objects
from modelplane.cli._main import _parser
from modelplane.cli._objects import ApiResource, is_own_conflict
from modelplane.cli._selection import select
from modelplane.cli.completion import candidates
from modelplane.cli.running import RunningPlane
from modelplane.cli.wait import WaitGoal, _goal
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.sim.cluster import ClusterSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
OPTIONS = [
    "--all", "--all-namespaces", "--data", "--filename", "--help", "--kubeconfig", "--namespace", "--selector",
    "-A", "-f", "-h", "-l", "-n",
]  # fmt: skip
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("md", (("ModelDeployment", ()),)),
        ("ModelDeployments a b", (("ModelDeployment", ("a", "b")),)),
        ("md/a", (("ModelDeployment", ("a",)),)),
        ("md/a ms/b md/c", (("ModelDeployment", ("a", "c")), ("ModelService", ("b",)))),
        ("md,ms", (("ModelDeployment", ()), ("ModelService", ()))),
        ("inferenceclusters.modelplane.ai east", (("InferenceCluster", ("east",)),)),
        ("ns", (("Namespace", ()),)),
    ],
)
def test_kinds_and_names_are_spelled_as_kubectl_spells_them(words, expected):
    assert read_objects(words.split()) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("mdd", "'mdd' is not a kind; did you mean md?"),
        ("md,zebra", "'zebra' is not a kind; there are ConfigMap, EKSCluster"),
        ("pods", "'pods' is not a kind of a control plane; pods are on the clusters: `modelplane trace` shows"),
        ("po", "'po' is not a kind of a control plane; pods are on the clusters: `modelplane trace` shows"),
        ("no", "'no' is not a kind of a control plane; `modelplane top` shows the nodes of each pool$"),
        ("ev", "'ev' is not a kind of a control plane; `modelplane events` shows them$"),
        ("md/", "neither KIND NAME nor KIND/NAME"),
        ("md/a b", "neither KIND NAME nor KIND/NAME"),
        ("md,ms a", "'md,ms' are several kinds; a name goes with one"),
        ("md,ms/a", "'md,ms' are several kinds; a name goes with one"),
    ],
)
def test_other_words_are_refused_with_what_is_right(words, message):
    with pytest.raises(InputError, match="^.*" + message.replace("?", r"\?")):
        read_objects(words.split())


@pytest.mark.parametrize(
    ("why", "own"),
    [
        (
            '1 conflict: conflict with "modelplane-cli" using modelplane.ai/v1alpha1: .spec.replicas',
            True,
        ),
        (
            '2 conflicts: conflicts with "modelplane-cli":\n- .spec.a\nconflicts with "modelplane-rollout":\n- .spec.b',
            True,
        ),
        ('conflicts with "modelplane-cli":\n- .spec.a\nconflicts with "kubectl":\n- .spec.b', False),
        ('conflicts with "before-first-apply" using modelplane.ai/v1alpha1:\n- .spec.replicas', True),
        ('conflict with "kubectl-client-side-apply" using modelplane.ai/v1alpha1: .spec.endpoints', True),
        ("the object has been modified", False),
    ],
)
def test_what_the_same_person_wrote_before_is_no_conflict(why, own):
    assert is_own_conflict(why) is own


def test_one_object_has_one_kind_and_one_name():
    assert read_name(["md", "a"]) == ("ModelDeployment", "a")
    for words in (["md"], ["md", "a", "b"], ["all"]):
        with pytest.raises(InputError, match="neither KIND NAME nor KIND/NAME"):
            read_name(words)
    assert "ModelReplica" in kinds_of_word("all")


@pytest.mark.parametrize(
    ("resource", "path", "shown"),
    [
        (
            ApiResource("modelplane.ai/v1alpha1", "ModelDeployment", "modeldeployments", namespaced=True),
            "/apis/modelplane.ai/v1alpha1/namespaces/te%2Fam/modeldeployments/x",
            "modeldeployment.modelplane.ai/x",
        ),
        (
            ApiResource("modelplane.ai/v1alpha1", "InferenceCluster", "inferenceclusters", namespaced=False),
            "/apis/modelplane.ai/v1alpha1/inferenceclusters/x",
            "inferencecluster.modelplane.ai/x",
        ),
        (ApiResource("v1", "Secret", "secrets", namespaced=True), "/api/v1/namespaces/te%2Fam/secrets/x", "secret/x"),
    ],
)
def test_the_path_and_the_name_of_an_object(resource, path, shown):
    assert (resource.path("te/am", "x"), resource.shown("x")) == (path, shown)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("condition=Ready", WaitGoal("Ready", "True")),
        ("condition=Placed=false", WaitGoal("Placed", "false")),
        ("delete", WaitGoal.DELETED),
        ("create", WaitGoal.CREATED),
        ("jsonpath={.status.readyReplicas}=3", WaitGoal("", "", "{.status.readyReplicas}", "3")),
        ("jsonpath=.status.url", WaitGoal("", "", ".status.url", None)),
        (
            'jsonpath={.status.conditions[?(@.type=="Ready")].status}=False',
            WaitGoal("", "", '{.status.conditions[?(@.type=="Ready")].status}', "False"),
        ),
    ],
)
def test_what_is_waited_for(text, goal):
    assert _goal(text) == goal


def test_when_a_wait_is_over():
    with pytest.raises(argparse.ArgumentTypeError, match="is none of condition=TYPE"):
        _goal("ready")
    table = [
        (WaitGoal(), READY),
        (WaitGoal("Ready", "false"), READY),
        (WaitGoal(), {}),
        (WaitGoal(), None),
        (WaitGoal.DELETED, READY),
        (WaitGoal.CREATED, None),
        (_goal("jsonpath=.spec.replicas=2"), {"spec": {"replicas": 3}}),
        (_goal("jsonpath=.spec.replicas"), {"spec": {}}),
    ]
    assert [goal.is_met(item) for goal, item in table] == [True, *[False] * 7]
    assert WaitGoal.DELETED.is_met(None)
    assert WaitGoal.CREATED.is_met({})
    assert _goal("jsonpath=.spec.paused=true").is_met({"spec": {"paused": True}})
    assert _goal("jsonpath=.spec.replicas").is_met({"spec": {"replicas": 0}})


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), ("0.5", 0.5), ("90s", 90), ("5m", 300), ("1h", 3600)])
def test_how_long_is_waited(text, seconds):
    found = duration_s(text)
    assert (found, type(found)) == (seconds, type(seconds))


@pytest.mark.parametrize("text", ["soon", "-1", "5x", "1e9"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no time; write 90s, 30m or 2h"):
        duration_s(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("delete", "give KIND NAME, or manifests by -f"),
        ("wait md/x -f examples/quickstart", "give KIND NAME, or manifests by -f"),
        ("delete md", "name the ModelDeployment, or select some by -l LABELS or --all"),
        ("delete md x -l a=b", "give names of the ModelDeployment, or -l or --all"),
        ("delete md --all -l a=b", "give -l or --all, not both"),
        ("describe -f examples/quickstart --all", "-l and --all go with a kind, and not with -f"),
        ("wait md x -A", "-A goes with -l or --all: a name is in one namespace"),
    ],
)
def test_a_selection_that_contradicts_itself_is_refused(words, message):
    parsed = _parser(words.split()).parse_args(words.split())
    with pytest.raises(InputError, match=re.escape(message)):
        select(None, parsed)


@pytest.mark.parametrize(
    "words", ["get", "apply", "scale md/x", "scale md/x --replicas -1", "trace", "wait md/x --for soon"]
)
def test_what_is_incomplete_is_wrong_usage(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    assert f"usage: modelplane {words.split()[0]}" in capsys.readouterr().err


class Typed:
    """Commands against a running plane, by its data folder or its kubeconfig."""

    def __init__(self, folder, capsys):
        self._folder, self._capsys = folder, capsys

    async def __call__(self, words, where="--data"):
        given = self._folder if where == "--data" else self._folder / "kubeconfig"
        code = await asyncio.to_thread(main, [*words.split(), where, str(given)])
        found = self._capsys.readouterr()
        return code, found.out, found.err


@pytest.mark.e2e
@pytest.mark.timeout(240)
def test_a_model_is_applied_waited_for_scaled_and_deleted(tmp_path, capsys):
    typed = Typed(tmp_path / "plane", capsys)
    wrong = tmp_path / "wrong.yaml"
    manifest = yaml.safe_load((EXAMPLES / "3-model.yaml").read_text().split("---")[0])
    wrong.write_text(yaml.safe_dump({**manifest, "spec": {**manifest["spec"], "replicaz": 2}}))

    async def applied():
        assert await typed(f"apply -f {wrong}") == (
            1,
            "",
            (
                f"modelplane apply: {wrong}:{_line(wrong)}: ModelDeployment/qwen3-8b: spec.replicaz: unknown field; "
                f"did you mean replicas?; `modelplane validate -f {wrong}` shows all\n"
            ),
        )
        code, out, _ = await typed(f"apply -f {EXAMPLES}")
        assert (code, {line.split()[-1] for line in out.splitlines()}) == (0, {"created"})
        code, out, _ = await typed(f"apply -f {EXAMPLES}", "--kubeconfig")
        assert (code, {line.split()[-1] for line in out.splitlines()}) == (0, {"unchanged"})
        code, out, _ = await typed("wait md/qwen3-8b --timeout 100")
        assert (code, out.splitlines()[-1]) == (0, "modeldeployment.modelplane.ai/qwen3-8b: condition Ready True")

    async def shown():
        code, out, _ = await typed("get md,ms")
        deployments, services = (table.splitlines() for table in out.split("\n\n"))
        assert (code, deployments[0].split()[:4]) == (0, ["MODELDEPLOYMENT", "DESIRED", "PLACED", "SERVING"])
        assert deployments[1].split()[:4] == ["qwen3-8b", "2", "2", "2"]
        assert services[1].split()[0] == "chat"
        assert (await typed("get md -o name"))[1] == "modeldeployment.modelplane.ai/qwen3-8b\n"
        assert json.loads((await typed("get md qwen3-8b -o json"))[1])["spec"]["replicas"] == 2
        assert (await typed("get md -n empty"))[1] == "nothing is in namespace empty; -A shows all namespaces\n"
        assert await typed("get md nope") == (
            1, "", 'modelplane get: modeldeployments.modelplane.ai "nope" not found; there is qwen3-8b\n',
        )  # fmt: skip
        code, out, _ = await typed("describe md/qwen3-8b")
        parts = {line for line in out.splitlines() if line and not line.startswith(" ")}
        assert {"Conditions:", "Spec:", "Status:", "Events:"} <= parts
        assert "AllReady" in (await typed("events --for md/qwen3-8b"))[1]
        assert (await typed("events md/qwen3-8b -o name"))[1] == (await typed("events --for md/qwen3-8b -o name"))[1]
        await _what_is_mistyped(typed, tmp_path)
        given = ["--data", str(tmp_path / "plane")]
        assert await asyncio.to_thread(candidates, ["describe", "md", *given]) == ["qwen3-8b", *OPTIONS]

    async def changed():
        assert (await typed("scale md/qwen3-8b --replicas 3"))[1].endswith("scaled from 2 to 3\n")
        await _applied_again(typed, tmp_path / "plane")
        code, out, _ = await typed("delete inferencecluster east --timeout 1")
        assert (code, "inferencecluster.modelplane.ai/east: InUse: in use by ModelReplica" in out) == (3, True)

    async def deleted():
        code, out, _ = await typed("delete ms --all")
        assert (code, out.splitlines()[-1]) == (0, "modelservice.modelplane.ai/chat: deleted")
        code, out, _ = await typed(f"delete -f {EXAMPLES} --timeout 100 --ignore-not-found")
        gone = [line for line in out.splitlines() if line.endswith(": deleted")]
        assert (code, gone[0]) == (0, "modeldeployment.modelplane.ai/qwen3-8b: deleted")
        code, _, err = await typed("delete md qwen3-8b")
        assert (code, err) == (1, 'modelplane delete: modeldeployments.modelplane.ai "qwen3-8b" not found\n')

    async def run():
        quick = ClusterSettings(pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with Plane(PlaneSettings(data=tmp_path / "plane", cluster=quick)):
            for step in (
                applied,
                shown,
                partial(_fleet_is_shown, typed),
                partial(_several_are_selected, typed),
                partial(_planned_and_applied, typed, tmp_path),
                changed,
                deleted,
            ):
                await step()

    asyncio.run(run())


async def _what_is_mistyped(typed, folder):
    """Each word that is wrong comes with what to type instead."""
    pod = folder / "pod.yaml"
    pod.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}}")
    for words, says in {
        "describe md qwen3": 'describe: modeldeployments.modelplane.ai "qwen3" not found; did you mean qwen3-8b?',
        "scale md/qwen3 --replicas 2": "; did you mean qwen3-8b?",
        "delete md qwen3": "; did you mean qwen3-8b?",
        "service cht": "; did you mean chat?",
        "chat cht": "ModelService default/cht does not exist; did you mean chat?",
        "rollout status md/qwen3": 'modeldeployments.modelplane.ai "qwen3" not found; did you mean qwen3-8b?',
        "rollout restart md/qwen3": "; did you mean qwen3-8b?",
        "explain md/qwen3": "there is no ModelDeployment qwen3; did you mean qwen3-8b?",
        "explain cluster/eest": "there is no InferenceCluster eest; did you mean east?",
        "explain mr/qwen3-8b": "there is no ModelReplica qwen3-8b; there is qwen3-8b-",
        "trace md/qwen3": "ModelDeployment default/qwen3 does not exist; did you mean qwen3-8b?",
        "trace ic/eest": "InferenceCluster eest does not exist; did you mean east?",
        "logs md/qwen3": "; did you mean qwen3-8b?",
        "logs mr/qwen3-8b": "; there is qwen3-8b-",
        "events md/qwen3": "; did you mean qwen3-8b?",
        "cache show qwen": 'modelcaches.modelplane.ai "qwen" not found',
        "cache warm qwen --on eest": "InferenceCluster eest does not exist; did you mean east?",
        "describe md qwen3-8b -n team": "; it is in namespace default: add -n default",
        "rollout pause md/qwen3-8b -n team": "; it is in namespace default: add -n default",
        "explain md/qwen3-8b -n team": "; it is in namespace default: add -n default",
        "trace md/qwen3-8b -n team": "; it is in namespace default: add -n default",
        "logs md/qwen3-8b -n team": "; it is in namespace default: add -n default",
        "chat ms/cht": "ModelService default/cht does not exist; did you mean chat?",
        "chat chat -n team": "; it is in namespace default: add -n default",
        "get md nope -n team": "; there is default/qwen3-8b",
        "drain cluster eest": "; did you mean east?",
        f"apply -f {pod}": "a Pod cannot be applied here: the control plane shows those of its clusters",
        "get pods": "`modelplane trace` shows what a replica waits for",
        "get events": "`modelplane events` shows them",
    }.items():
        code, out, err = await typed(words)
        assert (code, out, says in err) == (1, "", True), (words, err)
    assert (await typed("drain cluster east --abort"))[:2] == (0, "cluster east is not being drained.\n")
    assert (await typed("service ms/chat -o yaml"))[1] == (await typed("get ms chat -o yaml"))[1]


async def _several_are_selected(typed):
    """Several objects at once, by names, labels, files and all of a kind."""
    code, out, _ = await typed("get md/qwen3-8b ms/chat -o name")
    assert (code, out.split()) == (0, ["modeldeployment.modelplane.ai/qwen3-8b", "modelservice.modelplane.ai/chat"])
    label = "modelplane.ai/deployment=qwen3-8b"
    code, out, _ = await typed(f"get mr -l {label} -o name", "--kubeconfig")
    assert (code, len(out.split()), (await typed(f"get mr -l {label.replace('=', '!=')}"))[1]) == (
        0, 2, "nothing is in namespace default with these labels; -A shows all namespaces\n",
    )  # fmt: skip
    assert (await typed("get md qwen3-8b -l a=b"))[::2] == (1, "modelplane get: give names or -l, not both\n")
    code, out, _ = await typed(f"wait -f {EXAMPLES} --timeout 100s")
    assert (code, out.count(": condition Ready True")) == (0, 6)
    code, out, _ = await typed("wait md,ms --all -A --for jsonpath={.metadata.name}")
    assert (code, out.count("{.metadata.name} there")) == (0, 2)
    code, out, err = await typed("wait md/qwen3-8b --for jsonpath={.status.readyReplicas}=7 --timeout 0")
    assert (code, out, err) == (
        3, "modeldeployment.modelplane.ai/qwen3-8b: {.status.readyReplicas} is 2\n",
        (
            "modeldeployment.modelplane.ai/qwen3-8b: the time is over and it is not so: {.status.readyReplicas} 7; "
            "`modelplane trace modeldeployment/qwen3-8b` shows what it waits for\n"
        ),
    )  # fmt: skip
    assert (await typed("wait md/qwen3-8b --for jsonpath={.status.readyReplicas}=2"))[0] == 0
    code, _, err = await typed("wait md/qwen3-8b --for condition=Reddy --timeout 0")
    assert (code, err.partition("; ")[2]) == (
        3, "its conditions are Progressing, Ready, ReplicasReady, ReplicasScheduled\n",
    )  # fmt: skip
    assert (await typed("wait md -l a=b"))[::2] == (
        1, "modelplane wait: nothing matches, so there is nothing to wait for\n",
    )  # fmt: skip
    assert await typed("delete md -l a=b") == (0, "nothing matches, so nothing is deleted\n", "")
    code, out, _ = await typed(f"describe mr -l {label}")
    assert (code, out.count("Kind:        ModelReplica")) == (0, 2)


async def _planned_and_applied(typed, folder):
    """A plan shows what changes, and applies it when it is confirmed."""
    more = folder / "more.yaml"
    more.write_text((EXAMPLES / "3-model.yaml").read_text().split("---")[0].replace("qwen3-8b", "second"))
    code, out, _ = await typed(f"plan -f {EXAMPLES}")
    assert (code, out.splitlines()[0]) == (0, "nothing changes; replicas that stay as they are: 2; --all shows them")
    code, out, _ = await typed(f"plan -f {EXAMPLES} --all")
    assert (code, [line.split()[0] for line in out.splitlines()[1:3]]) == (0, ["keep", "keep"])
    code, out, _ = await typed(f"plan -f {more}")
    assert [line.split()[:2] for line in out.splitlines()[1:3]] == [["place", "default/second"]] * 2
    code, out, _ = await typed(f"render -f {more}")
    assert (code, "qwen3-8b-" in out, out.count("kind: Deployment")) == (0, False, 2)
    assert (await typed(f"render -f {more} --all"))[1].count("kind: Deployment") == 4
    assert (await typed(f"plan -f {more} --apply"))[::2] == (
        1, "modelplane plan: --apply needs a terminal for its question; --yes applies without it\n",
    )  # fmt: skip
    assert (await typed("get md second"))[0] == 1
    code, out, _ = await typed(f"plan -f {more} --apply --yes")
    assert (code, out.splitlines()[-1]) == (0, "modeldeployment.modelplane.ai/second created")
    assert (await typed(f"delete -f {more} --timeout 100"))[0] == 0


async def _applied_again(typed, folder):
    """What `scale` set is the program's own; what an autoscaler set is not."""
    code, out, _ = await typed(f"apply -f {EXAMPLES}")
    assert (code, "modeldeployment.modelplane.ai/qwen3-8b configured" in out) == (0, True)
    assert json.loads((await typed("get md qwen3-8b -o json"))[1])["spec"]["replicas"] == 2
    await asyncio.to_thread(_scale_as, folder, "autoscaler", 3)
    code, _, err = await typed(f"apply -f {EXAMPLES}")
    assert (code, err.rpartition("; ")[2]) == (1, "--force-conflicts takes them over\n")
    assert 'conflict with "autoscaler"' in err
    assert (await typed(f"apply -f {EXAMPLES} --force-conflicts"))[0] == 0
    assert json.loads((await typed("get md qwen3-8b -o json"))[1])["spec"]["replicas"] == 2


def _scale_as(folder, manager, replicas):
    path = f"/apis/modelplane.ai/v1alpha1/namespaces/default/modeldeployments/qwen3-8b?fieldManager={manager}"
    RunningPlane.of(folder).request("PATCH", path, {"spec": {"replicas": replicas}})


async def _fleet_is_shown(typed):
    """By the commands that read many objects, with a kubeconfig as with a data folder."""
    assert (await typed("version -o json"))[:2] == (await typed("version -o json", "--kubeconfig"))[:2]
    assert json.loads((await typed("version -o json"))[1])["plane"] == __version__
    used = json.loads((await typed("top -o json", "--kubeconfig"))[1])
    assert sum(pool["readyReplicas"] for pool in used["pools"]) == 2
    assert (used["deployments"][0]["readyReplicas"], used["deployments"][0]["traffic"]) == (2, None)
    code, out, _ = await typed("trace md/qwen3-8b", "--kubeconfig")
    leaves = [line.split()[-3:-1] for line in out.splitlines() if "ModelService" in line]
    assert (code, out.splitlines()[1].split()[:2]) == (0, ["ModelDeployment/qwen3-8b", "Ready"])
    assert leaves == [["ModelService/chat", "Ready"]] * 2
    code, out, _ = await typed("service chat", "--kubeconfig")
    assert (code, out) == (await typed("service chat"))[:2]
    assert (code, out.splitlines()[0].split()) == (0, ["model", "default/chat"])
    assert (await typed("service none", "--kubeconfig"))[::2] == (
        1, 'modelplane service: modelservices.modelplane.ai "none" not found; there is chat\n',
    )  # fmt: skip
    states = json.loads((await typed("status -o json", "--kubeconfig"))[1])
    assert [(row["name"], row["freeDevices"], row["lostDevices"]) for row in states["clusters"]] == [
        ("east", 15, 0), ("west", 15, 0),
    ]  # fmt: skip
    sized = await typed("new Qwen/Qwen3-8B")
    assert (sized[0], "(class h200-8x)" in sized[1]) == (0, True)
    assert sized == await typed("new Qwen/Qwen3-8B", "--kubeconfig")
    assert (await typed("trace md/nope"))[::2] == (
        1,
        "modelplane trace: ModelDeployment default/nope does not exist; there is qwen3-8b\n",
    )


def _line(path):
    return next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "replicaz" in text)
