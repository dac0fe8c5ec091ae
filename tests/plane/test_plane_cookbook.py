"""Every recipe of the cookbook, each an example of the design, runs on the embedded plane until all of it serves.

Clouds and engines are simulated. What no file has is given: the Secret of a bucket, a claim with weights.
"""

import re
from pathlib import Path

import pytest
import yaml

from modelplane.api.objects import GROUP, name_of
from modelplane.catalog import inference_class, load_catalog
from modelplane.compose.context import remote_namespace
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

ROOT = Path(__file__).resolve().parents[2]
ROWS = [line.split("|") for line in (ROOT / "docs" / "cookbook.md").read_text().splitlines() if line.startswith("| [")]
CLASSES = {
    re.search(r"cookbook/([\w-]+)\)", row[1])[1]: re.findall(r"`([^`]+)`", row[3]) for row in ROWS if len(row) == 5
}
OF_PLATFORM = {"InferenceClass", "InferenceCluster", "InferenceGateway"}
GIVEN_SECRETS = {"qwen3-coder-lora": ("code", "adapters"), "multi-region": ("assistants", "acme")}
GIVEN_CLAIMS = {"kimi-k2-5p3d": ("fra-a", "assistants", "weights")}
SERVING = {
    "kimi-k2-5p3d": {"fra-a": 1},
    "qwen3-coder-lora": {"east": 1, "west": 1},
    "gpt-oss-autoscaled": {"east": 1},
    "multi-region": {"iad-a": 2, "fra-a": 2},
    "bring-your-own-kai": {"research": 1},
    "reference-clusters": {},
}
"""How many replicas serve on each cluster."""


def manifests(recipe):
    catalog = load_catalog()
    machines = {machine.name: machine for machine in catalog.machines}
    yield from (inference_class(catalog, machines[name]) for name in CLASSES[recipe])
    for path in sorted((ROOT / "cookbook" / recipe).glob("*.yaml")):
        yield from (item for item in yaml.safe_load_all(path.read_text()) if item["apiVersion"].startswith(GROUP))


def give_secret(fleet, recipe):
    if recipe in GIVEN_SECRETS:
        namespace, name = GIVEN_SECRETS[recipe]
        data = dict.fromkeys(
            ("apiKey", "accessKeyId", "secretAccessKey", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "eA=="
        )
        meta = {"name": name, "namespace": namespace}
        fleet.plane.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


def give_claim(fleet, recipe):
    """In the namespace of the team on that cluster."""
    if recipe in GIVEN_CLAIMS:
        cluster, tenant, name = GIVEN_CLAIMS[recipe]
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": remote_namespace(tenant)},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "2Ti"}}},
        }
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": remote_namespace(tenant)}}
        for item in (namespace, claim):
            fleet.clusters.get(cluster).api.create(item)


async def run_recipe(fleet, clock, recipe):
    items = list(manifests(recipe))
    for item in (item for item in items if item["kind"] in OF_PLATFORM):
        fleet.plane.create(item)
    await clock.sleep(90)
    give_secret(fleet, recipe)
    for item in (item for item in items if item["kind"] not in OF_PLATFORM):
        fleet.plane.create(item)
    await clock.sleep(10)
    give_claim(fleet, recipe)
    await clock.sleep(110)


def unready(fleet, *kinds):
    items = [item for kind in kinds for item in fleet.plane.list(GROUP, kind)]
    found = {name_of(item): condition_of(item, "Ready") for item in items}
    return {name: ready for name, ready in found.items() if ready.get("status") != "True"}


@pytest.mark.parametrize("recipe", CLASSES)
def test_a_recipe_runs_until_all_of_it_serves(recipe):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            await run_recipe(fleet, clock, recipe)
            assert unready(fleet, "InferenceCluster", "ModelCache", "ModelDeployment") == {}
            where = [cluster for (cluster, _), ready in fleet.replicas().items() if ready == "True"]
            assert {name: where.count(name) for name in sorted(set(where))} == SERVING[recipe]

    run_virtual(main)


def test_every_recipe_is_run():
    assert CLASSES.keys() == SERVING.keys() == {path.name for path in (ROOT / "cookbook").iterdir()} - {"models"}


def test_an_autoscaler_scales_the_deployment_that_it_names():
    """KEDA sets the scale subresource, which is spec.replicas."""

    async def main(clock):
        async with running_fleet(clock) as fleet:
            await run_recipe(fleet, clock, "gpt-oss-autoscaled")
            text = (ROOT / "cookbook" / "gpt-oss-autoscaled" / "autoscaler.yaml").read_text()
            scaled = yaml.safe_load(text)
            target = scaled["spec"]["scaleTargetRef"]
            assert (scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]) == (1, 8)
            for replicas in (3, 1):
                item = fleet.get(target["kind"], target["name"], scaled["metadata"]["namespace"])
                fleet.plane.replace({**item, "spec": {**item["spec"], "replicas": replicas}})
                await clock.sleep(120)
                assert list(fleet.replicas().values()) == ["True"] * replicas

    run_virtual(main)
