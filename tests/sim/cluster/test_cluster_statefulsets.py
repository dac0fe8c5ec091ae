"""StatefulSets as LeaderWorkerSets use them: numbered pods, in parallel, replaced from the highest down."""

from modelplane.api.objects import manifest, name_of, uid_of
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.statefulsets import is_whole, number_of
from modelplane.testing.cluster import TENANT_NAMESPACE, gpu_pool, run_cluster

LABELS = {"app": "web"}


def stateful_set(replicas=3, *, image="modelplane/web:1", start=0, **rolling):
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "web", "image": image}]}}
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    spec = {
        "serviceName": "web",
        "replicas": replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": template,
        "ordinals": {"start": start},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    return manifest("apps/v1", "StatefulSet", "web", namespace=TENANT_NAMESPACE, spec=spec)


def images(lab):
    return {name_of(pod): pod["spec"]["containers"][0]["image"][-1] for pod in lab.pods()}


def in_cluster(story):
    return run_cluster(story, pools=[gpu_pool(nodes=3)])


def test_pods_have_numbers_and_a_place_in_the_network():
    async def main(lab):
        lab.apply(stateful_set(2, start=1))
        await lab.settle()
        status = lab.get(stateful_set())["status"]
        return {name_of(p): (p["spec"]["hostname"], p["spec"]["subdomain"]) for p in lab.pods()}, status

    pods, status = in_cluster(main)
    assert pods == {"web-1": ("web-1", "web"), "web-2": ("web-2", "web")}
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (2, 2, 2)
    assert status["currentRevision"] == status["updateRevision"]


def test_a_pod_that_goes_comes_back_under_its_name():
    async def main(lab):
        lab.apply(stateful_set())
        await lab.settle()
        ref = ObjectRef("", "Pod", TENANT_NAMESPACE, "web-1")
        before = uid_of(lab.store.get(ref))
        lab.store.delete(ref)
        await lab.settle()
        return before != uid_of(lab.store.get(ref)), images(lab)

    assert in_cluster(main) == (True, {"web-0": "1", "web-1": "1", "web-2": "1"})


def test_the_highest_numbers_go_when_there_are_too_many():
    async def main(lab):
        lab.apply(stateful_set())
        await lab.settle()
        lab.apply(stateful_set(1))
        await lab.settle()
        return list(images(lab))

    assert in_cluster(main) == ["web-0"]


def test_pods_below_the_partition_keep_their_revision():
    async def main(lab):
        lab.apply(stateful_set())
        await lab.settle()
        lab.apply(stateful_set(image="modelplane/web:2", partition=2))
        await lab.settle()
        partly = images(lab), is_whole(lab.get(stateful_set()))
        lab.store.delete(ObjectRef("", "Pod", TENANT_NAMESPACE, "web-0"))
        await lab.settle()
        again = images(lab)
        lab.apply(stateful_set(image="modelplane/web:2", partition=0))
        await lab.settle()
        kept = lab.store.list("apps", "ControllerRevision")
        return partly, again, images(lab), is_whole(lab.get(stateful_set())), len(kept)

    partly, again, late, whole, revisions = in_cluster(main)
    assert partly == ({"web-0": "1", "web-1": "1", "web-2": "2"}, False)
    assert again == partly[0]
    assert late == {"web-0": "2", "web-1": "2", "web-2": "2"}
    assert (whole, revisions) == (True, 1)


def test_replaced_one_by_one_from_the_highest():
    gone = []

    async def main(lab):
        lab.apply(stateful_set())
        await lab.settle()
        lab.store.subscribe(lambda c: gone.append(c.ref.name) if c.ref.kind == "Pod" and c.type == "DELETED" else None)
        lab.apply(stateful_set(image="modelplane/web:2"))
        await lab.settle()

    in_cluster(main)
    assert gone == ["web-2", "web-1", "web-0"]


def test_a_name_without_a_number_has_none():
    assert number_of({"metadata": {"name": "web"}}) == -1
