from modelplane.api.objects import name_of
from modelplane.reconcile.store import ref_of
from modelplane.sim.cluster.replicasets import _first_to_go
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster


def pod(name, *, node="n1", phase="Running", ready=True, since="2025-01-01T00:00:00Z", restarts=0):
    ready_now = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    return {
        "metadata": {"name": name, "creationTimestamp": since},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": [ready_now], "containerStatuses": [{"restartCount": restarts}]},
    }


def test_the_order_in_which_pods_go():
    pods = [
        pod("steady", node="n3"),
        pod("restarted", node="n4", restarts=2),
        pod("crowded", node="n1"),
        pod("crowded-too", node="n1"),
        pod("crowded-three", node="n1"),
        pod("younger", node="n5", since="2025-02-01T00:00:00Z"),
        pod("unready", ready=False),
        pod("starting", phase="Pending", ready=False),
        pod("unbound", node="", phase="Pending", ready=False),
    ]
    assert [name_of(item) for item in _first_to_go(pods)] == [
        "unbound",
        "starting",
        "unready",
        "crowded",
        "crowded-three",
        "crowded-too",
        "younger",
        "restarted",
        "steady",
    ]


def test_counts_of_a_replica_set():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=9))
        await lab.settle()
        (found,) = lab.store.list("apps", "ReplicaSet")
        return found["status"]

    assert run_cluster(main, pools=[gpu_pool("h200", 1)]) == {
        "replicas": 9,
        "observedGeneration": 1,
        "fullyLabeledReplicas": 9,
        "readyReplicas": 8,
        "availableReplicas": 8,
        "terminatingReplicas": 0,
    }


def test_pods_that_wait_go_first():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=10))
        await lab.settle()
        running = set(lab.engines.running.values())
        lab.apply(deployment(replicas=8))
        await lab.settle()
        return set(lab.engines.running.values()) == running, len(lab.pods())

    assert run_cluster(main, pools=[gpu_pool("h200", 1)]) == (True, 8)


def test_a_deleted_pod_is_replaced_at_once():
    async def main(lab):
        lab.apply(claim_template(), deployment())
        await lab.settle()
        (first,) = lab.pods()
        lab.store.delete(ref_of(first))
        await lab.clock.sleep(0.1)
        overlap = sorted(bool(p["metadata"].get("deletionTimestamp")) for p in lab.pods())
        (found,) = lab.store.list("apps", "ReplicaSet")
        await lab.settle()
        return overlap, found["status"]["terminatingReplicas"], [name_of(p) != name_of(first) for p in lab.pods()]

    assert run_cluster(main, pools=[gpu_pool("h200", 1)]) == ([False, True], 1, [True])
