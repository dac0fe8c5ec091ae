"""Simulated clusters with a queue for each namespace."""

from pathlib import Path

import pytest
import yaml

from modelplane.api.meta import ClusterName
from modelplane.sim.cluster.objects import condition_of
from modelplane.sim.cluster.sim_settings import QUOTA
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
PASSED_THROUGH = {"schedulerName": "kai-scheduler", "defaultLabels": {"runai/queue": "{{ .Namespace }}"}}


def documents(*kinds):
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from (each for each in yaml.safe_load_all(path.read_text()) if each["kind"] in kinds)


def deployment(name, namespace, replicas):
    (example,) = documents("ModelDeployment")
    spec = {**example["spec"], "replicas": replicas, "labels": {"app": name}}
    return {**example, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def condition(fleet, name, namespace, kind):
    return condition_of(fleet.get("ModelDeployment", name, namespace), kind)


@pytest.mark.parametrize(
    "scheduling",
    [
        {"type": "KAI", "queue": "{{ .Namespace }}"},
        {"type": "Kueue", "queue": "{{ .Namespace }}"},
        {"type": "Volcano", "queue": "{{ .Namespace }}"},
        PASSED_THROUGH,
    ],
    ids=["KAI", "Kueue", "Volcano", "passed through"],
)
def test_each_namespace_counts_against_its_own_queue(scheduling):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in documents("InferenceClass", "InferenceCluster", "InferenceGateway"):
                if manifest["kind"] == "InferenceCluster":
                    manifest["spec"]["scheduling"] = scheduling
                fleet.plane.create(manifest)
            await clock.sleep(5)
            for cluster in ("east", "west"):
                fleet.clusters.annotate(ClusterName(cluster), QUOTA, "1")
            fleet.plane.create(deployment("one", "team-a", 2))
            fleet.plane.create(deployment("two", "team-b", 1))
            await clock.sleep(60)
            assert condition(fleet, "one", "team-a", "Ready")["status"] == "True"
            assert condition(fleet, "two", "team-b", "Ready")["status"] == "True"
            fleet.plane.create(deployment("more", "team-a", 1))
            await clock.sleep(20)
            waiting = condition(fleet, "more", "team-a", "ReplicasScheduled")
            assert waiting["status"] == "False"
            assert "needs 1 devices; queue team-a has 0 of 1 left" in waiting["message"]

    run_virtual(main)
