"""What is kept between passes of the scheduler, and dropped when the objects behind it change."""

from modelplane.sim.cluster.devices import DeviceCache, without_nulls
from modelplane.testing.cluster import claim_template, deployment, gpu_pool, run_cluster


def test_the_inventory_is_kept_while_the_slices_are_the_same():
    async def main(lab):
        await lab.settle()
        devices = DeviceCache(lab.store)
        first = devices.book().inventory
        lab.apply(claim_template(), deployment())
        await lab.settle()
        same = devices.book().inventory is first
        lab.cluster.set_pools([gpu_pool("h200", 2)])
        await lab.settle()
        return same, devices.book().inventory is first

    assert run_cluster(main, pools=[gpu_pool()]) == (True, False)


def test_plans_of_claims_that_wait_are_kept_while_the_claims_and_classes_are():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=2))
        await lab.settle()
        devices = DeviceCache(lab.store)
        book = devices.book()
        for claim in lab.claims():
            book.allocate([claim], [])
        kept = [len(devices.book().plans)]
        lab.apply(deployment(replicas=1))
        await lab.settle()
        kept.append(len(devices.book().plans))
        lab.apply({**lab.store.list("resource.k8s.io", "DeviceClass")[0], "spec": {}})
        kept.append(len(devices.book().plans))
        return kept

    assert run_cluster(main, pools=[gpu_pool()]) == [2, 1, 0]


def test_the_plan_of_a_claim_that_has_its_devices_goes():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=1))
        await lab.settle()
        devices = DeviceCache(lab.store)
        book = devices.book()
        (claim,) = lab.claims()
        book.allocate([claim], lab.store.list("", "Node"))
        return len(book.plans)

    assert run_cluster(main, pools=[gpu_pool()]) == 0


def test_what_was_put_away_is_made_again():
    async def main(lab):
        await lab.settle()
        devices = DeviceCache(lab.store)
        first = devices.book()
        devices.evict()
        again = devices.book()
        return again.inventory is first.inventory, again.classes == first.classes, len(again.classes)

    assert run_cluster(main, pools=[gpu_pool()]) == (False, True, 1)


def test_a_missing_class_is_named():
    async def main(lab):
        await lab.settle()
        book = DeviceCache(lab.store).book()
        either = {"name": "any", "firstAvailable": [{"deviceClassName": "gpu.nvidia.com"}, {"deviceClassName": "b200"}]}
        known = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        return [
            book.missing_class([{"spec": {"devices": {"requests": requests}}}])
            for requests in ([known], [known, either])
        ]

    assert run_cluster(main, pools=[gpu_pool()]) == [None, "request any: device class b200 does not exist"]


def test_null_fields_are_not_written():
    assert without_nulls({"a": None, "b": [{"c": None, "d": 1}]}) == {"b": [{"d": 1}]}
