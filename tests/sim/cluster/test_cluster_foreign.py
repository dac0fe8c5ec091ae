"""Pods of others: they take devices where there are some, and go again."""

import pytest

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.objects import items_at, namespace_of
from modelplane.sim.cluster import NodePoolSpec
from modelplane.sim.cluster.foreign import NAMESPACE, foreign_pods
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster

POOLS = [gpu_pool("h200", 1), NodePoolSpec(name="cpu", nodes=1)]


def held(lab):
    path = ("status", "allocation", "devices", "results")
    return sorted(len(list(items_at(claim, *path))) for claim in lab.claims())


def test_they_take_what_is_free_and_wait_for_the_rest():
    async def main(lab):
        lab.apply(claim_template(), deployment())
        await lab.settle()
        lab.cluster.set_foreign_pods("h200", gpus=3, count=3)
        await lab.settle()
        first = foreign_pods(lab.store, "h200"), held(lab)
        lab.cluster.set_foreign_pods("h200", gpus=1, count=2)
        await lab.settle()
        second = foreign_pods(lab.store, "h200"), held(lab)
        lab.cluster.set_foreign_pods("h200", gpus=0, count=0)
        await lab.settle()
        left = [namespace_of(pod) for pod in lab.pods()]
        templates = lab.store.list("resource.k8s.io", "ResourceClaimTemplate", namespace=NAMESPACE)
        return first, second, left, held(lab), templates

    first, second, left, after, templates = run_cluster(main, pools=POOLS)
    assert first == ((3, 2), [0, 1, 3, 3])
    assert second == ((2, 2), [1, 1, 1])
    assert (left, after, templates) == (["team"], [1], ())


@pytest.mark.parametrize(("pool", "error"), [("nosuch", NotFoundError), ("cpu", InputError)])
def test_a_pool_without_devices_holds_none_of_them(pool, error):
    async def main(lab):
        with pytest.raises(error, match=pool):
            lab.cluster.set_foreign_pods(pool, gpus=1, count=1)

    run_cluster(main, pools=POOLS)
