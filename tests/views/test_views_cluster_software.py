import pytest
import yaml

from modelplane.api.errors import NotFoundError
from modelplane.cli._main import main
from modelplane.views.cluster_software import explain_cluster
from modelplane.views.shapes import ClusterExplanation, SoftwareRow

MET = {
    "type": "RequirementsMet",
    "status": "True",
    "reason": "RequirementsMet",
    "lastTransitionTime": "2026-11-17T10:00:00Z",
}


def make(name, wave=None, software=None, **status):
    upgrade = {"software": {"upgrade": {"wave": wave}}} if wave is not None else {}
    existing = {"source": "Existing", "existing": {"secretRef": {"name": name}, "components": "Managed"}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": {"cluster": existing, **upgrade},
        "status": {**({"software": software} if software else {}), **status},
    }


def software(phase, message=None):
    return {"phase": phase, "release": "beef", "revision": "f00d", **({"message": message} if message else {})}


FLEET = (
    make("z", 0, software("UpToDate")),
    make("plain"),
    make(
        "b",
        1,
        software("Waiting", "waiting for c of its wave; maxUnavailable is 1"),
        conditions=[MET],
        inClusterScheduler={"type": "KAI", "message": "the cluster serves APIs of KAI"},
    ),
    make("at-once", None, software("Upgrading", "not ready: kueue")),
    make("c", 1, software("Upgrading")),
)


def test_who_waits_for_what():
    assert explain_cluster(FLEET, "b") == ClusterExplanation(
        cluster="b",
        summary="Waiting: waiting for c of its wave; maxUnavailable is 1",
        requirements="RequirementsMet",
        scheduler="KAI: the cluster serves APIs of KAI",
        rows=(
            SoftwareRow(cluster="z", wave=0, phase="UpToDate", release="beef"),
            SoftwareRow(
                cluster="b",
                wave=1,
                phase="Waiting",
                release="beef",
                why="waiting for c of its wave; maxUnavailable is 1",
            ),
            SoftwareRow(cluster="c", wave=1, phase="Upgrading", release="beef"),
            SoftwareRow(cluster="at-once", phase="Upgrading", release="beef", why="not ready: kueue"),
        ),
    )


def test_a_cluster_without_managed_software():
    assert explain_cluster(FLEET, "plain").summary == "Modelplane installs no software on it"


def test_a_cluster_that_does_not_exist():
    with pytest.raises(NotFoundError, match="there is no InferenceCluster nope"):
        explain_cluster(FLEET, "nope")


def test_the_command_shows_the_waves(tmp_path, capsys):
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump_all(FLEET))
    assert main(["explain", "cluster/b", "-f", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "b: software: Waiting: waiting for c of its wave; maxUnavailable is 1\n" in shown
    assert "b: scheduler: KAI: the cluster serves APIs of KAI\n" in shown
    assert shown.splitlines()[-1].split() == ["-", "at-once", "Upgrading", "beef", "not", "ready:", "kueue"]
