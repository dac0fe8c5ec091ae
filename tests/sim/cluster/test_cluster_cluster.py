"""The cluster as a whole: it comes to rest, fails and recovers, starts again, and is the same every time."""

import asyncio

import pytest

from modelplane.api.objects import name_of
from modelplane.reconcile.store import ref_of
from modelplane.sim import cluster as front_door
from modelplane.sim.cluster import ClusterSettings
from modelplane.sim.cluster.objects import condition_is
from modelplane.testing.clock import run_virtual
from modelplane.testing.cluster import (
    claim_template,
    deployment,
    gateway,
    gpu_pool,
    make_lab,
    route,
    run_cluster,
    service,
)

ALL = (claim_template(), deployment(replicas=9), service(), gateway(), route())
POOLS = [gpu_pool("h200", 1)]


def test_with_no_input_nothing_is_written():
    async def main(lab):
        lab.cluster.set_gateway_address("127.0.0.1:1")
        lab.apply(*ALL)
        await lab.settle()
        await lab.clock.sleep(1000)
        before = lab.store.revision, lab.cluster.stats().passes
        await lab.clock.sleep(1000)
        return before, (lab.store.revision, lab.cluster.stats().passes)

    before, after = run_cluster(main, pools=POOLS)
    assert before == after


def test_looking_at_everything_again_writes_nothing():
    async def main(lab):
        lab.apply(*ALL)
        await lab.settle()
        await lab.clock.sleep(1000)
        before = lab.store.revision
        lab.cluster._enqueue_all()
        await lab.settle()
        return before, lab.store.revision

    before, after = run_cluster(main, pools=POOLS)
    assert before == after


def facts(lab):
    return [
        (kind, name_of(item), item.get("spec"), item.get("status"))
        for group, kind in lab.store.kinds()
        for item in lab.store.list(group, kind)
    ]


@pytest.mark.parametrize("seed", [None, 7])
def test_the_same_input_gives_the_same_cluster(seed):
    async def main(lab):
        lab.apply(*ALL)
        await lab.clock.sleep(3)
        lab.cluster.lose_node("h200-0")
        lab.apply(deployment(replicas=4, image="vllm/vllm-openai:v2"))
        await lab.clock.sleep(500)
        return facts(lab), lab.store.revision

    pools = [gpu_pool("h200", 2)]
    assert run_cluster(main, pools=pools, seed=seed) == run_cluster(main, pools=pools, seed=seed)


def outcome(lab):
    status = lab.get(deployment())["status"]
    return status.get("availableReplicas"), status["replicas"], len(lab.engines.running), len(lab.claims())


@pytest.mark.parametrize("seed", range(10))
def test_any_order_of_tasks_ends_in_the_same_place(seed):
    async def main(lab):
        lab.apply(*ALL)
        await lab.clock.sleep(seed / 10)
        lab.apply(deployment(replicas=5, image="vllm/vllm-openai:v2"))
        await lab.settle()
        return outcome(lab)

    assert run_cluster(main, pools=POOLS, seed=seed) == (5, 5, 5, 5)


def test_a_failed_cluster_freezes_and_comes_back():
    async def main(lab):
        views = []
        lab.cluster.set_gateway_address("127.0.0.1:1")
        lab.apply(claim_template(), deployment(replicas=2), service(), gateway(), route())
        await lab.settle()
        lab.cluster.on_gateway_view_change(lambda: views.append(lab.cluster.gateway_view()))
        await lab.cluster.fail()
        before = lab.store.revision
        dark = lab.cluster.reachable, len(lab.engines.running), lab.cluster.gateway_view(), views[-1]
        await lab.clock.sleep(1000)
        frozen = lab.store.revision == before
        await lab.cluster.recover()
        await lab.settle()
        restarts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in lab.pods()]
        ready = all(condition_is(pod, "Ready") for pod in lab.pods())
        return dark, frozen, restarts, ready, len(lab.engines.running), len(views[-1].slices), lab.cluster.reachable

    dark, *rest = run_cluster(main, pools=POOLS)
    assert dark == (False, 0, None, None)
    assert rest == [True, [1, 1], True, 2, 2, True]


def test_what_was_asked_for_while_it_was_down_is_done_afterwards():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=4))
        await lab.settle()
        await lab.cluster.fail()
        found = lab.store.get(ref_of(deployment()))
        lab.store.replace({**found, "spec": {**found["spec"], "replicas": 1}})
        await lab.settle()
        down = len(lab.pods())
        await lab.cluster.recover()
        await lab.settle()
        return down, len(lab.pods()), len(lab.engines.running)

    assert run_cluster(main, pools=POOLS) == (4, 1, 1)


def test_stopping_ends_every_engine_and_starting_takes_up_the_work():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=2))
        await lab.settle()
        await lab.cluster.stop()
        stopped = len(lab.engines.running)
        await lab.cluster.stop()
        lab.store.replace({**lab.get(deployment()), "spec": deployment(replicas=3)["spec"]})
        await lab.cluster.start()
        with pytest.raises(RuntimeError, match="cluster east is already running"):
            await lab.cluster.start()
        await lab.settle()
        return stopped, outcome(lab)

    assert run_cluster(main, pools=POOLS) == (0, (3, 3, 3, 3))


def test_running_until_cancelled():
    async def main(clock):
        lab = make_lab(clock, ClusterSettings())
        task = asyncio.create_task(lab.cluster.run())
        await clock.sleep(1)
        namespaces = [name_of(item) for item in lab.store.list("", "Namespace")]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return namespaces

    assert run_virtual(main) == ["default", "kube-system", "modelplane-system"]


def test_settling_gives_up_when_time_runs_out():
    async def main(lab):
        lab.engines.answers = False
        lab.apply(claim_template(), deployment())
        return await lab.cluster.settle(30)

    assert run_cluster(main, pools=POOLS) is False


def test_the_front_door_is_exact():
    public = {name for name in vars(front_door) if not name.startswith("_") and name[0].isupper()} | {"pools_of"}
    assert set(front_door.__all__) == public
