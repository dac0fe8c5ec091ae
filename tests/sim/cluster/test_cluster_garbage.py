import pytest

from modelplane.api.objects import manifest, name_of
from modelplane.k8s.deletion import Propagation
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.garbage import delete_in_foreground
from modelplane.testing.cluster import (
    TENANT_NAMESPACE,
    claim_template,
    deployment,
    gpu_pool,
    route,
    run_cluster,
    service,
)
from tests.sim.cluster.test_cluster_jobs import job


def thing(name, *owners, namespace=TENANT_NAMESPACE):
    item = manifest("v1", "ConfigMap", name, namespace=namespace)
    item["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name_of(owner), "uid": owner["metadata"]["uid"]}
        for owner in owners
    ]
    return item


def names(lab):
    return [name_of(item) for item in lab.store.list("", "ConfigMap")]


def test_dependents_go_with_their_last_owner():
    async def main(lab):
        first, second = (lab.store.create(thing(name)) for name in ("first", "second"))
        child = lab.store.create(thing("child", first, second))
        lab.store.create(thing("grandchild", child))
        lab.store.delete(ref_of(first))
        await lab.settle()
        one_left = names(lab)
        lab.store.delete(ref_of(second))
        await lab.settle()
        return one_left, names(lab)

    assert run_cluster(main) == (["child", "grandchild", "second"], [])


def test_an_owner_made_again_is_another_owner():
    async def main(lab):
        owner = lab.store.create(thing("owner"))
        lab.store.create(thing("child", owner))
        lab.store.delete(ref_of(owner))
        lab.store.create(thing("owner"))
        await lab.settle()
        return names(lab)

    assert run_cluster(main) == ["owner"]


def test_in_the_foreground_the_owner_goes_last():
    gone = []

    async def main(lab):
        owner = lab.store.create(thing("owner"))
        child = lab.store.create(thing("child", owner))
        lab.store.create(thing("grandchild", child))
        await lab.settle()
        lab.store.subscribe(lambda change: gone.append(change.ref.name) if change.type == "DELETED" else None)
        delete_in_foreground(lab.store, owner)
        await lab.settle()

    run_cluster(main)
    assert gone == ["grandchild", "child", "owner"]


@pytest.mark.parametrize(
    ("finalizers", "propagation", "left"),
    [
        ([], None, ["Pod"]),
        ([], Propagation.BACKGROUND, []),
        ([], Propagation.FOREGROUND, []),
        ([], Propagation.ORPHAN, ["Pod"]),
        (["foregroundDeletion"], None, []),
        (["foregroundDeletion"], Propagation.ORPHAN, ["Pod"]),
        (["orphan"], None, ["Pod"]),
    ],
)
def test_a_job_leaves_its_pods_behind_unless_it_is_told_otherwise(finalizers, propagation, left):
    async def main(lab):
        lab.apply({**job(seconds=3600), "metadata": {**job()["metadata"], "finalizers": finalizers}})
        await lab.clock.sleep(20)
        made = lab.get(job())
        (pod,) = lab.pods()
        lab.cluster.api.delete(ref_of(made), propagation=propagation)
        await lab.clock.sleep(120)
        found = [lab.store.get(ref_of(item)) for item in (made, pod)]
        owners = [item["metadata"].get("ownerReferences", []) for item in found if item is not None]
        return [item["kind"] for item in found if item is not None], owners

    assert run_cluster(main, pools=[gpu_pool()]) == (left, [[]] * len(left))


def test_in_the_foreground_what_has_another_owner_stays():
    async def main(lab):
        first, second = (lab.store.create(thing(name)) for name in ("first", "second"))
        lab.store.create(thing("child", first, second))
        await lab.settle()
        lab.cluster.api.delete(ref_of(first), propagation=Propagation.FOREGROUND)
        await lab.settle()
        return names(lab)

    assert run_cluster(main) == ["child", "second"]


def test_what_names_an_owner_that_never_was_goes():
    async def main(lab):
        lab.store.create(thing("child", {"metadata": {"name": "ghost", "uid": "none"}}))
        await lab.settle()
        return names(lab)

    assert run_cluster(main) == []


def test_a_deleted_namespace_takes_its_contents_with_it():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=3), service(), route())
        lab.store.create(thing("elsewhere", namespace="default"))
        await lab.settle()
        lab.store.delete(ref_of(manifest("v1", "Namespace", TENANT_NAMESPACE)))
        await lab.settle()
        left = [
            item
            for group, kind in lab.store.kinds()
            for item in lab.store.list(group, kind, namespace=TENANT_NAMESPACE)
        ]
        return left, names(lab), lab.engines.running

    assert run_cluster(main, pools=[gpu_pool()]) == ([], ["elsewhere"], {})


def test_namespaces_are_active():
    async def main(lab):
        await lab.settle()
        return {name_of(item): item["status"] for item in lab.store.list("", "Namespace")}

    active = {"phase": "Active"}
    assert run_cluster(main) == {"default": active, "kube-system": active, "modelplane-system": active, "team": active}
