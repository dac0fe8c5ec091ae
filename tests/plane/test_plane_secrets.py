"""Secrets on the embedded plane: they reach the clusters of replicas, follow changes and leave with the replicas."""

from pathlib import Path

import msgspec
import yaml

from modelplane.api.objects import GROUP
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEPLOYMENT = ObjectRef(GROUP, "ModelDeployment", "default", "llama-3-8b")
SECRET = ObjectRef("", "Secret", "default", "hf-token")
OLD, NEW = "b2xkLWNhbmFyeQ==", "bmV3LWNhbmFyeQ=="


def token(value):
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hf-token", "namespace": "default"},
        "type": "Opaque",
        "data": {"HF_TOKEN": value},
    }


def manifests():
    for path in (*sorted((EXAMPLES / "quickstart").glob("[12]*.yaml")), EXAMPLES / "gated" / "model.yaml"):
        yield from yaml.safe_load_all(path.read_text())


def copies(fleet, kind="Secret"):
    return {
        name: [item["data"]["HF_TOKEN"] for item in fleet.database.store(f"cluster/{name}").list("", kind)]
        for name in ("east", "west")
    }


def secrets_ready(fleet):
    found = [condition_of(item, "SecretsReady") for item in fleet.plane.list(GROUP, "ModelReplica")]
    return {(condition["status"], condition["reason"]) for condition in found}


def virtually(story):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in manifests():
                if manifest["kind"] == "ModelDeployment":
                    await clock.sleep(5)
                fleet.plane.create(manifest)
            await story(fleet, clock)

    run_virtual(main)


def test_pods_wait_for_the_secret_and_start_when_it_is_there():
    async def story(fleet, clock):
        await clock.sleep(20)
        assert secrets_ready(fleet) == {("False", "SecretMissing")}
        assert fleet.pods("east") == fleet.pods("west") == ()
        fleet.plane.create(token(OLD))
        await clock.sleep(20)
        assert copies(fleet) == {"east": [OLD], "west": [OLD]}
        assert secrets_ready(fleet) == {("True", "SecretsCopied")}
        assert fleet.replicas() == {("east", 0): "True", ("west", 0): "True"}

    virtually(story)


def test_a_change_reaches_the_copies_and_a_deletion_does_not():
    async def story(fleet, clock):
        fleet.plane.create(token(OLD))
        await clock.sleep(20)
        pods = {name: len(fleet.pods(name)) for name in ("east", "west")}
        stored = fleet.plane.get(SECRET)
        fleet.plane.replace({**stored, "data": {"HF_TOKEN": NEW}})
        await clock.sleep(5)
        assert copies(fleet) == {"east": [NEW], "west": [NEW]}
        fleet.plane.delete(SECRET)
        await clock.sleep(20)
        assert copies(fleet) == {"east": [NEW], "west": [NEW]}
        assert secrets_ready(fleet) == {("False", "SecretMissing")}
        assert fleet.endpoints() == {"east": 1, "west": 1}
        assert {name: len(fleet.pods(name)) for name in ("east", "west")} == pods

    virtually(story)


def test_copies_and_the_namespace_leave_with_the_last_replica():
    async def story(fleet, clock):
        fleet.plane.create(token(OLD))
        await clock.sleep(20)
        fleet.plane.delete(DEPLOYMENT)
        await clock.sleep(200)
        assert fleet.replicas() == {}
        assert copies(fleet) == {"east": [], "west": []}
        namespaces = [fleet.database.store(f"cluster/{name}").list("", "Namespace") for name in ("east", "west")]
        assert not any("tenant" in str(item["metadata"].get("labels")) for found in namespaces for item in found)
        assert fleet.plane.get(SECRET) is not None

    virtually(story)


def test_no_object_but_the_original_and_its_copies_has_the_value():
    async def story(fleet, clock):
        fleet.plane.create(token(OLD))
        await clock.sleep(20)
        for store in (fleet.plane, *(fleet.database.store(f"cluster/{name}") for name in ("east", "west"))):
            for group, kind in store.kinds():
                if kind != "Secret":
                    assert OLD.encode() not in msgspec.json.encode(store.list(group, kind)), kind

    virtually(story)
