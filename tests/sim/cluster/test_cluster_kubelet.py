"""The life of a pod's containers, by the clock."""

import asyncio

import pytest
from msgspec.structs import replace

from modelplane.api.errors import NotFoundError
from modelplane.api.models import Attribute
from modelplane.api.objects import manifest, name_of
from modelplane.sim.cluster import ClusterSettings, NodePoolSpec
from modelplane.sim.cluster.engines import GPUS
from modelplane.sim.cluster.objects import condition_is
from modelplane.sim.cluster.pod_status import pod_id
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, deployment, gpu_pool, run_cluster, service

POOLS = [gpu_pool("h200", 1)]
SLOW = ClusterSettings(pull_s=10, load_s=20, drain_s=5, grace_s=30)


def seen(lab):
    """Phase, readiness, state of the container, and where it really answers."""
    (pod,) = lab.pods()
    (container,) = pod["status"].get("containerStatuses", [{"state": {"none": {}}}])
    (state,) = container["state"]
    listens = pod["metadata"].get("annotations", {}).get("sim.modelplane.ai/listens-on")
    return pod["status"]["phase"], condition_is(pod, "Ready"), state, listens


async def at(lab, second):
    await lab.clock.sleep(second - lab.clock.monotonic())
    return seen(lab)


def test_a_pod_is_pulled_then_loads_then_serves():
    async def main(lab):
        lab.engines.start_s = 3
        lab.apply(claim_template(), deployment())
        return [await at(lab, second) for second in (1, 9, 11, 29, 31, 34)]

    assert run_cluster(main, pools=POOLS, settings=SLOW) == [
        ("Pending", False, "waiting", None),
        ("Pending", False, "waiting", None),
        ("Running", False, "running", None),
        ("Running", False, "running", None),
        ("Running", False, "running", None),
        ("Running", True, "running", "8000=127.0.0.1:20000"),
    ]


def test_annotations_of_the_pod_decide_over_settings():
    sim_settings = {"sim.modelplane.ai/pull-seconds": "1", "sim.modelplane.ai/load-seconds": "2.5"}

    async def main(lab):
        lab.apply(claim_template(), deployment(annotations=sim_settings))
        return [(await at(lab, second))[1] for second in (3.4, 3.6)]

    assert run_cluster(main, pools=POOLS, settings=SLOW) == [False, True]


@pytest.mark.parametrize("value", ["soon", "-1", "inf", "nan"])
def test_a_knob_that_is_no_time_changes_nothing(value):
    async def main(lab):
        lab.apply(claim_template(), deployment(annotations={"sim.modelplane.ai/load-seconds": value}))
        return [(await at(lab, second))[1] for second in (29, 31)]

    assert run_cluster(main, pools=POOLS, settings=SLOW) == [False, True]


def test_a_pod_is_ready_only_when_its_engine_answers():
    async def main(lab):
        lab.engines.answers = False
        lab.apply(claim_template(), deployment())
        before = await at(lab, 100)
        lab.engines.answers = True
        return before, await at(lab, 102)

    assert run_cluster(main, pools=POOLS, settings=SLOW) == (
        ("Running", False, "running", None),
        ("Running", True, "running", "8000=127.0.0.1:20000"),
    )


def test_a_deleted_pod_leaves_the_endpoints_then_drains_then_goes():
    async def main(lab):
        lab.engines.stop_s = 7
        lab.apply(claim_template(), deployment(), service())
        await lab.settle()
        began = lab.clock.monotonic()
        lab.apply(deployment(replicas=0))
        await lab.clock.sleep(0.1)
        first = seen(lab), len(lab.engines.running), endpoints(lab)
        await lab.clock.sleep(began + 5.1 - lab.clock.monotonic())
        second = seen(lab), list(lab.engines.stopped), endpoints(lab)
        await lab.clock.sleep(began + 12.1 - lab.clock.monotonic())
        return first, second, (lab.pods(), lab.claims(), endpoints(lab))

    first, second, gone = run_cluster(main, pools=POOLS, settings=SLOW)
    closing = [{"ready": False, "serving": False, "terminating": True}]
    assert first == (("Running", False, "running", None), 1, closing)
    assert second[0] == ("Running", False, "running", None)
    assert [grace for _, grace in second[1]] == [30.0]
    assert gone == ((), (), [])


def endpoints(lab):
    slices = lab.store.list("discovery.k8s.io", "EndpointSlice")
    return [endpoint["conditions"] for item in slices for endpoint in item["endpoints"]]


@pytest.mark.parametrize(("asked", "expected"), [(3, 3), (90, 5)])
def test_a_pre_stop_sleep_is_a_drain_up_to_the_setting(asked, expected):
    async def main(lab):
        made = deployment()
        engine = made["spec"]["template"]["spec"]["containers"][0]
        engine["lifecycle"] = {"preStop": {"sleep": {"seconds": asked}}}
        lab.apply(claim_template(), made)
        await lab.settle()
        began = lab.clock.monotonic()
        lab.apply({**made, "spec": {**made["spec"], "replicas": 0}})
        await lab.settle()
        return round(lab.clock.monotonic() - began, 3)

    assert run_cluster(main, pools=POOLS, settings=SLOW) == expected


def test_the_grace_of_the_pod_decides_over_settings():
    async def main(lab):
        made = deployment()
        made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 120
        lab.apply(claim_template(), made)
        await lab.settle()
        lab.apply({**made, "spec": {**made["spec"], "replicas": 0}})
        await lab.settle()
        return [grace for _, grace in lab.engines.stopped]

    assert run_cluster(main, pools=POOLS, settings=SLOW) == [120.0]


@pytest.mark.parametrize("second", [1, 15, 31])
def test_a_pod_deleted_before_it_serves_goes_at_once(second):
    async def main(lab):
        lab.engines.start_s = 5
        lab.apply(claim_template(), deployment())
        await lab.clock.sleep(second)
        lab.apply(deployment(replicas=0))
        await lab.clock.sleep(0.1)
        return lab.pods(), lab.claims(), lab.engines.running

    assert run_cluster(main, pools=POOLS, settings=SLOW) == ((), (), {})


def test_a_pod_deleted_while_it_is_probed_stops_its_engine():
    async def main(lab):
        lab.engines.answers = False
        lab.apply(claim_template(), deployment())
        await lab.clock.sleep(60)
        started = len(lab.engines.running)
        lab.apply(deployment(replicas=0))
        await lab.settle()
        return started, lab.pods(), lab.engines.running

    assert run_cluster(main, pools=POOLS, settings=SLOW) == (1, (), {})


def test_an_engine_that_does_not_start_is_tried_again_later_each_time():
    async def main(lab):
        lab.engines.refuses = lambda _pod: "no such model"
        lab.apply(claim_template(), deployment())
        await lab.clock.sleep(31)
        (pod,) = lab.pods()
        counts = []
        for _ in range(6):
            await lab.clock.sleep(60)
            counts.append(lab.pods()[0]["status"]["containerStatuses"][0]["restartCount"])
        lab.engines.refuses = lambda _pod: None
        await lab.settle(2000)
        return pod["status"]["containerStatuses"][0], counts, seen(lab)[1]

    first, counts, ready = run_cluster(main, pools=POOLS, settings=SLOW)
    assert first["restartCount"] == 1
    assert first["lastState"] == {
        "terminated": {
            "exitCode": 1,
            "reason": "Error",
            "message": "no such model",
            "finishedAt": "2025-06-15T15:07:10Z",
        }
    }
    assert counts == [2, 3, 4, 5, 5, 5]
    assert ready


def test_a_crash_on_request_restarts_the_containers_once():
    async def main(lab):
        lab.apply(claim_template(), deployment())
        await lab.settle()
        (pod,) = lab.pods()
        lab.cluster.crash_pod(TENANT_NAMESPACE, name_of(pod))
        await lab.clock.sleep(0.1)
        down = seen(lab), list(lab.engines.stopped)
        await lab.settle()
        after = lab.pods()[0]["status"]["containerStatuses"][0]
        return down, seen(lab)[1], after["restartCount"], after["lastState"]["terminated"]["exitCode"]

    down, ready, restarts, code = run_cluster(main, pools=POOLS, settings=SLOW)
    assert down[0] == ("Running", False, "running", None)
    assert [grace for _, grace in down[1]] == [0]
    assert (ready, restarts, code) == (True, 1, 137)


def test_a_second_crash_backs_off():
    async def main(lab):
        lab.apply(claim_template(), deployment())
        await lab.settle()
        (pod,) = lab.pods()
        lab.cluster.crash_pod(TENANT_NAMESPACE, name_of(pod))
        await lab.settle()
        lab.cluster.crash_pod(TENANT_NAMESPACE, name_of(pod))
        await lab.clock.sleep(9)
        waiting = lab.pods()[0]["status"]["containerStatuses"][0]["state"]
        await lab.settle()
        return waiting, pod_id(pod), seen(lab)[1]

    waiting, name, ready = run_cluster(main, pools=POOLS, settings=SLOW)
    message = f"back-off 10s restarting failed container=engine pod={name}"
    assert waiting == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    assert ready


def test_a_pod_that_is_not_there_cannot_crash():
    async def main(lab):
        with pytest.raises(NotFoundError, match="cluster east has no pod team/x"):
            lab.cluster.crash_pod(TENANT_NAMESPACE, "x")

    run_cluster(main)


def test_a_pod_without_an_engine_is_ready_with_its_images():
    async def main(lab):
        spec = {"containers": [{"name": "web", "image": "modelplane/web:1"}]}
        lab.apply(manifest("v1", "Pod", "web", namespace=TENANT_NAMESPACE, spec=spec))
        return [(await at(lab, second))[:2] for second in (9, 11)], lab.engines.running

    assert run_cluster(main, pools=[NodePoolSpec(name="cpu", nodes=1)], settings=SLOW) == (
        [("Pending", False), ("Running", True)],
        {},
    )


def test_addresses_are_unique_and_given_again():
    async def main(lab):
        lab.apply(claim_template(), deployment(replicas=3))
        await lab.settle()
        first = sorted(pod["status"]["podIP"] for pod in lab.pods())
        lab.apply(deployment(replicas=1))
        await lab.settle()
        lab.apply(deployment(replicas=3))
        await lab.settle()
        return first, sorted(pod["status"]["podIP"] for pod in lab.pods())

    expected = ["10.128.0.2", "10.128.0.3", "10.128.0.4"]
    assert run_cluster(main, pools=POOLS) == (expected, expected)


def test_a_finished_pod_is_left_alone_and_its_devices_are_free():
    async def main(lab):
        lab.apply(claim_template(gpus=8), deployment())
        await lab.settle()
        (pod,) = lab.pods()
        lab.store.replace_status({**pod, "status": {**pod["status"], "phase": "Failed"}})
        await lab.settle()
        return sorted(pod["status"]["phase"] for pod in lab.pods())

    assert run_cluster(main, pools=POOLS) == ["Failed", "Running"]


def test_a_stop_that_fails_is_reported():
    heard = []

    async def main(lab):
        async def broken_stop(running, *, grace_s):
            del lab.engines.running[running]
            raise RuntimeError(f"stuck after {grace_s} s")

        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        lab.apply(claim_template(), deployment())
        await lab.settle()
        lab.engines.stop = broken_stop
        lab.apply(deployment(replicas=0))
        await lab.settle()
        return lab.pods()

    assert run_cluster(main, pools=POOLS) == ()
    (context,) = heard
    assert "stopping its engine failed" in context["message"]


def test_an_engine_that_ends_by_itself_is_restarted_at_once_and_then_later_each_time():
    async def main(lab):
        lab.apply(claim_template(), deployment(), service())
        await lab.settle()
        told = []
        for _ in range(3):
            lab.engines.crash()
            await lab.clock.sleep(0.1)
            (pod,) = lab.pods()
            (status,) = pod["status"]["containerStatuses"]
            told.append((seen(lab)[1], status["restartCount"], *status["state"], endpoints(lab)[0]["ready"]))
            await lab.settle()
        return told, seen(lab), len(lab.engines.running), warnings(lab), pod_id(pod)

    told, after, running, warned, name = run_cluster(main, pools=POOLS, settings=SLOW)
    assert told == [
        (False, 1, "running", False),
        (False, 1, "waiting", False),
        (False, 2, "waiting", False),
    ]
    assert after[:3] == ("Running", True, "running")
    assert running == 1
    assert warned == [("BackOff", f"Back-off restarting failed container engine in pod {name}", 2)]


def warnings(lab):
    found = lab.store.list("", "Event", namespace=TENANT_NAMESPACE)
    return [(event["reason"], event["message"], event["count"]) for event in found]


def test_a_back_off_begins_anew_after_a_long_good_run():
    async def main(lab):
        lab.apply(claim_template(), deployment())
        await lab.settle()
        for _ in range(2):
            lab.engines.crash()
            await lab.settle(2000)
        await lab.clock.sleep(601)
        lab.engines.crash()
        await lab.clock.sleep(0.1)
        return lab.pods()[0]["status"]["containerStatuses"][0]["state"]

    assert list(run_cluster(main, pools=POOLS, settings=SLOW)) == ["running"]


def test_the_news_of_an_engine_that_was_stopped_is_no_news():
    async def main(lab):
        lab.apply(claim_template(), deployment())
        await lab.settle()
        crashes = dict(lab.engines._crashes)
        lab.engines.crash()
        await lab.settle()
        for tell in crashes.values():
            tell()
        await lab.settle()
        return lab.pods()[0]["status"]["containerStatuses"][0]["restartCount"]

    assert run_cluster(main, pools=POOLS, settings=SLOW) == 1


def test_what_was_told_of_a_pod_goes_with_it():
    async def main(lab):
        lab.apply(claim_template(), deployment())
        await lab.settle()
        for _ in range(2):
            lab.engines.crash()
            await lab.settle()
        before = len(warnings(lab))
        lab.apply(deployment(replicas=0))
        await lab.settle()
        return before, warnings(lab)

    assert run_cluster(main, pools=POOLS, settings=SLOW) == (1, [])


def test_an_engine_is_told_the_gpus_that_its_pod_holds():
    async def main(lab):
        lab.apply(claim_template(gpus=2), deployment())
        await lab.settle()
        (pod,) = lab.engines.shown.values()
        return pod["metadata"]["annotations"][GPUS], GPUS in lab.pods()[0]["metadata"].get("annotations", {})

    pool = gpu_pool("h200", 1)
    named = replace(pool.devices[0], attributes={"productName": Attribute(string="NVIDIA H200")})
    told = run_cluster(main, pools=[NodePoolSpec(name="h200", nodes=1, devices=(named,))], settings=SLOW)
    assert told == ("NVIDIA H200,NVIDIA H200", False)
