"""A replica that overflowed goes back to the first tier when that has room again, and something serves throughout."""

from pathlib import Path

import yaml

from modelplane.api.meta import ClusterName
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


def documents(*kinds):
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from (each for each in yaml.safe_load_all(path.read_text()) if each["kind"] in kinds)


def deployment(**placement):
    (example,) = documents("ModelDeployment")
    spec = {**example["spec"], "replicas": 1, "failover": {"gracePeriodSeconds": 5}, "placement": placement}
    return {**example, "spec": spec}


def test_a_replica_fails_back_to_the_first_tier_successor_first():
    tiers = [{"matchLabels": {"tier": "west"}}, {"matchLabels": {"tier": "east"}}]
    seen = []

    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in documents("InferenceClass", "InferenceCluster", "InferenceGateway"):
                if manifest["kind"] == "InferenceCluster":
                    manifest["metadata"]["labels"] = {"tier": manifest["metadata"]["name"]}
                fleet.plane.create(manifest)
            await clock.sleep(5)
            made = deployment(tiers=tiers, rebalance={"triggers": ["Tier"], "intervalSeconds": 60})
            fleet.plane.create(made)
            await clock.sleep(40)
            assert list(fleet.replicas()) == [("west", 0)]
            fleet.clusters.fail(ClusterName("west"))
            await clock.sleep(60)
            assert fleet.replicas()["east", 0] == "True"
            fleet.clusters.recover(ClusterName("west"))
            for _ in range(400):
                await clock.sleep(0.5)
                seen.append(fleet.replicas())
            assert [(name, state) for (name, _), state in fleet.replicas().items()] == [("west", "True")]
            name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
            found = condition_of(fleet.get("ModelDeployment", name, namespace), "Ready")
            assert found["status"] == "True"

    run_virtual(main)
    assert all("True" in states.values() for states in seen)
    assert any(len(states) == 2 for states in seen)


def test_a_surge_that_is_undone_is_no_move_to_a_better_place():
    """Its successor is on a better cluster, the interval is not over, and nothing may move for a better place."""
    tiers = [{"matchLabels": {"tier": "west"}}, {"matchLabels": {"tier": "east"}}]
    rebalance = {"triggers": ["Tier"], "intervalSeconds": 86_400}

    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in documents("InferenceClass", "InferenceCluster", "InferenceGateway"):
                if manifest["kind"] == "InferenceCluster":
                    manifest["metadata"]["labels"] = {"tier": manifest["metadata"]["name"]}
                    manifest["spec"]["cordoned"] = manifest["metadata"]["name"] == "west"
                fleet.plane.create(manifest)
            await clock.sleep(5)
            made = deployment(tiers=tiers, rebalance=rebalance)
            made["spec"]["rollout"] = {"strategy": "Surge"}
            fleet.plane.create(made)
            await clock.sleep(40)
            assert fleet.replicas() == {("east", 0): "True"}
            west = fleet.get("InferenceCluster", "west", "")
            fleet.plane.replace({**west, "spec": {**west["spec"], "cordoned": False}})
            fleet.engines.start_s = 100_000.0
            workers = made["spec"]["workers"]
            labelled = {**workers["template"], "metadata": {"labels": {"edition": "2"}}}
            set_workers(fleet, made, {**workers, "template": labelled})
            await clock.sleep(30)
            assert sorted(fleet.replicas()) == [("east", 0), ("west", 0)]
            set_workers(fleet, made, workers)
            await clock.sleep(30)
            assert fleet.replicas() == {("east", 0): "True"}

    run_virtual(main)


def set_workers(fleet, made, workers):
    item = fleet.get("ModelDeployment", made["metadata"]["name"], made["metadata"]["namespace"])
    fleet.plane.replace({**item, "spec": {**item["spec"], "workers": workers}})
