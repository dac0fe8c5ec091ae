"""Updates of a deployment on the embedded plane, in virtual time: surge, minReadySeconds, pause and the deadline."""

import asyncio
from pathlib import Path

import pytest
import yaml

from modelplane.api.objects import GROUP, labels_of
from modelplane.api.timestamps import timestamp
from modelplane.envoy.access_log import ServedRequest
from modelplane.plane.traffic_meter import TrafficMeter
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
REF = ObjectRef(GROUP, "ModelDeployment", "default", "qwen3-8b")
OLD, NEW = "vllm/vllm-openai:v0.27.1", "vllm/vllm-openai:v0.28.0"
LOAD_S = 30.0


def manifests(rollout, replicas):
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest["kind"] == "ModelDeployment":
                manifest["spec"] |= {"rollout": rollout, "replicas": replicas}
            yield manifest


def virtually(story, rollout, replicas=2):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in manifests(rollout, replicas):
                if manifest["kind"] == "ModelDeployment":
                    await clock.sleep(5)
                fleet.plane.create(manifest)
            await clock.sleep(60)
            assert fleet.endpoints().total() == replicas
            fleet.engines.start_s = LOAD_S
            await story(fleet, clock)

    run_virtual(main)


def edit(fleet, change):
    item = fleet.plane.get(REF)
    fleet.plane.replace({**item, "spec": change(item["spec"])})


def set_image(fleet, image):
    edit(fleet, lambda spec: yaml.safe_load(yaml.safe_dump(spec).replace(OLD, image)))


def images(fleet):
    found = fleet.plane.list(GROUP, "ModelReplica")
    return sorted(
        item["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"] for item in found
    )


def progressing(fleet):
    condition = condition_of(fleet.plane.get(REF), "Progressing")
    return condition["reason"]


async def fewest_endpoints(fleet, clock, seconds):
    fewest = fleet.endpoints().total()
    for _ in range(seconds):
        await clock.sleep(1)
        found = fleet.endpoints().total()
        if found < fewest:
            fewest, missing = found, {where: state for where, state in fleet.replicas().items() if state != "True"}
            print(f"{clock.monotonic():.0f} s: {found} endpoints; replicas that are not ready: {missing}")  # noqa: T201  shown when it fails
    return fewest


@pytest.mark.parametrize(("strategy", "fewest"), [("InPlace", 1), ("Surge", 2)])
def test_surge_never_has_fewer_endpoints_than_before(strategy, fewest):
    async def story(fleet, clock):
        set_image(fleet, NEW)
        assert await fewest_endpoints(fleet, clock, 240) == fewest
        assert images(fleet) == [NEW, NEW]
        assert progressing(fleet) == "RolloutComplete"
        assert fleet.endpoints().total() == 2
        hashes = {labels_of(item)["modelplane.ai/revision"] for item in fleet.plane.list(GROUP, "ModelEndpoint")}
        assert hashes == {fleet.plane.get(REF)["status"]["rollout"]["hash"]}

    virtually(story, {"strategy": strategy})


def test_surge_keeps_its_number_and_waits_for_min_ready_seconds():
    async def story(fleet, clock):
        set_image(fleet, NEW)
        most = 0
        for _ in range(400):
            await clock.sleep(1)
            assert fleet.endpoints().total() >= 2
            most = max(most, len(images(fleet)))
        assert most == 3
        assert images(fleet) == [NEW, NEW]
        assert progressing(fleet) == "RolloutComplete"

    virtually(story, {"strategy": "Surge", "minReadySeconds": 20})


@pytest.mark.submission
def test_surge_without_capacity_replaces_one_at_a_time():
    async def story(fleet, clock):
        set_image(fleet, NEW)
        assert await fewest_endpoints(fleet, clock, 45 * 60) == 31
        assert images(fleet) == [NEW] * 32
        assert progressing(fleet) == "RolloutComplete"

    virtually(story, {"strategy": "Surge"}, replicas=32)


def test_a_pause_holds_the_change_and_new_replicas_get_the_revision_before():
    async def story(fleet, clock):
        edit(fleet, lambda spec: {**spec, "rollout": {"paused": True}})
        set_image(fleet, NEW)
        edit(fleet, lambda spec: {**spec, "replicas": 3})
        await clock.sleep(100)
        assert images(fleet) == [OLD, OLD, OLD]
        assert progressing(fleet) == "RolloutPaused"
        edit(fleet, lambda spec: {**spec, "rollout": {}})
        await clock.sleep(300)
        assert images(fleet) == [NEW, NEW, NEW]
        assert [each["revision"] for each in fleet.plane.get(REF)["status"]["revisions"]] == [1, 2]

    virtually(story, {})


def test_an_update_that_does_not_start_exceeds_its_deadline_and_the_old_serve_on():
    async def story(fleet, clock):
        fleet.engines.start_s = 100_000.0
        set_image(fleet, NEW)
        await clock.sleep(50)
        assert progressing(fleet) == "RollingOut"
        await clock.sleep(60)
        assert progressing(fleet) == "ProgressDeadlineExceeded"
        assert images(fleet) == [OLD, OLD, NEW]
        assert fleet.endpoints().total() == 2

    virtually(story, {"strategy": "Surge", "progressDeadlineSeconds": 100})


def test_an_endpoint_waits_for_min_ready_seconds():
    async def story(fleet, clock):
        edit(fleet, lambda spec: {**spec, "replicas": 3})
        await clock.sleep(LOAD_S + 15)
        assert sorted(fleet.replicas().values()) == ["True", "True", "True"]
        assert fleet.endpoints().total() == 2
        await clock.sleep(60)
        assert fleet.endpoints().total() == 3

    virtually(story, {"minReadySeconds": 40})


def canaries(fleet):
    items = fleet.plane.list(GROUP, "ModelEndpoint")
    return sum(labels_of(item).get("modelplane.ai/track") == "canary" for item in items)


@pytest.mark.parametrize("strategy", ["InPlace", "Surge"])
def test_a_canary_serves_alone_before_the_others_follow(strategy):
    async def story(fleet, clock):
        set_image(fleet, NEW)
        await clock.sleep(90)
        assert (images(fleet), canaries(fleet)) == ([OLD, OLD, OLD, NEW], 1)
        assert progressing(fleet) == "CanaryBaking"
        await clock.sleep(150)
        assert images(fleet).count(NEW) > 1
        assert canaries(fleet) == 0
        await clock.sleep(300)
        assert (images(fleet), progressing(fleet)) == ([NEW] * 4, "RolloutComplete")

    virtually(story, {"strategy": strategy, "canary": {"bakeSeconds": 120}}, replicas=4)


def test_a_canary_that_does_not_serve_goes_no_further_and_is_undone_at_once():
    async def story(fleet, clock):
        fleet.engines.start_s = 100_000.0
        set_image(fleet, NEW)
        await clock.sleep(600)
        assert (images(fleet), progressing(fleet)) == ([OLD, OLD, OLD, NEW], "ProgressDeadlineExceeded")
        assert fleet.endpoints().total() == 3
        fleet.engines.start_s = LOAD_S
        edit(fleet, lambda spec: yaml.safe_load(yaml.safe_dump(spec).replace(NEW, OLD)))
        await clock.sleep(120)
        assert (images(fleet), canaries(fleet), progressing(fleet)) == ([OLD] * 4, 0, "RolloutComplete")
        assert fleet.endpoints().total() == 4

    virtually(story, {"canary": {"bakeSeconds": 120}, "progressDeadlineSeconds": 300}, replicas=4)


class Requests:
    """Requests that the gateway logged. Those to canaries fail at a rate."""

    def __init__(self, fleet):
        self._fleet = fleet
        self.canary_failures = 0.0
        self.most = 20

    def read(self):
        for item in self._fleet.plane.list(GROUP, "ModelEndpoint"):
            weight = labels_of(item).get("modelplane.ai/canary-weight")
            for number in range(0 if weight == "0" else self.most):
                failed = weight is not None and number < self.most * self.canary_failures
                yield ServedRequest(f"default/{item['metadata']['name']}", failed, 40, 400)


def weights(fleet):
    items = fleet.plane.list(GROUP, "ModelEndpoint")
    return sorted(labels_of(item).get("modelplane.ai/canary-weight", "-") for item in items)


def test_a_new_revision_gets_requests_after_its_warm_up():
    async def story(fleet, clock):
        for name in ("east", "west"):
            cluster = fleet.get("InferenceCluster", name)
            backend = {**cluster["spec"].get("backend", {}), "images": {"warmUp": "modelplane-warm-up:v1"}}
            fleet.plane.replace({**cluster, "spec": {**cluster["spec"], "backend": backend}})
        fleet.engines.warm_s = 40.0
        await clock.sleep(5)
        edit(fleet, lambda spec: {**spec, "warmUp": {"prompts": 3}})
        await clock.sleep(LOAD_S + 20)
        warming = [item for item in fleet.plane.list(GROUP, "ModelReplica") if item["status"]["reason"] == "WarmingUp"]
        assert [item["status"]["message"] for item in warming] == [
            "1 of 1 pod: container warm-up: its requests are not all answered yet"
        ]
        assert (fleet.endpoints().total(), progressing(fleet)) == (2, "RollingOut")
        assert fleet.plane.get(REF)["status"]["notReady"][0]["reason"] == "WarmingUp"
        assert await fewest_endpoints(fleet, clock, 200) == 2
        assert progressing(fleet) == "RolloutComplete"

    virtually(story, {"strategy": "Surge"})


STEPS = [{"weight": 10, "pauseSeconds": 60}, {"weight": 50, "untilPromoted": True}]
ANALYSIS = {"windowSeconds": 30, "minRequests": 20, "maxErrorRate": "2%"}


def annotate(fleet, **annotations):
    item = fleet.plane.get(REF)
    given = {f"modelplane.ai/{name}": value for name, value in annotations.items()}
    fleet.plane.replace({**item, "metadata": {**item["metadata"], "annotations": given}})


def analysed(story, strategy, canary):
    async def measured(fleet, clock):
        requests = Requests(fleet)
        meter = TrafficMeter(fleet.plane, requests, clock)
        task = asyncio.create_task(meter.run())
        try:
            await story(fleet, clock, requests)
        finally:
            task.cancel()

    virtually(measured, {"strategy": strategy, "canary": canary}, replicas=4)


@pytest.mark.submission
@pytest.mark.parametrize("strategy", ["InPlace", "Surge"])
def test_a_canary_goes_from_step_to_step_and_is_promoted_by_a_user(strategy):
    async def story(fleet, clock, _requests):
        set_image(fleet, NEW)
        await clock.sleep(70)
        assert (weights(fleet), images(fleet).count(NEW)) == (["-", "-", "-", "10"], 1)
        await clock.sleep(150)
        assert (weights(fleet), images(fleet).count(NEW)) == (["-", "-", "50", "50"], 2)
        await clock.sleep(60)
        canary = fleet.plane.get(REF)["status"]["rollout"]["canary"]
        assert (canary["step"], canary["analysis"], progressing(fleet)) == (2, "Passing", "CanaryBaking")
        annotate(fleet, promote=f"{fleet.plane.get(REF)['status']['rollout']['hash']}/2")
        await clock.sleep(300)
        assert (weights(fleet), images(fleet), progressing(fleet)) == (["-"] * 4, [NEW] * 4, "RolloutComplete")

    analysed(story, strategy, {"steps": STEPS, "analysis": ANALYSIS})


@pytest.mark.submission
@pytest.mark.parametrize("strategy", ["InPlace", "Surge"])
def test_a_canary_that_fails_requests_is_halted_resumed_and_undone(strategy):
    async def story(fleet, clock, requests):
        requests.canary_failures = 0.1
        set_image(fleet, NEW)
        while progressing(fleet) != "RolloutHalted":
            await clock.sleep(1)
        assert weights(fleet).count("-") == 3
        status = fleet.plane.get(REF)["status"]
        told = "2 of 20 requests failed (10.0 %, limit 2 %); stopped at 10 %"
        assert (status["rollout"]["halted"]["message"], status["revisions"][-1]["halted"]) == (told, told)
        events = [item for item in fleet.plane.list("", "Event") if item["reason"] == "RolloutHalted"]
        assert [(item["type"], told in item["message"]) for item in events] == [("Warning", True)]
        edit(fleet, lambda spec: {**spec, "replicas": 5})
        await clock.sleep(200)
        assert (images(fleet), weights(fleet)) == ([OLD] * 5, ["-"] * 5)
        assert [each["revision"] for each in fleet.plane.get(REF)["status"]["revisions"]] == [1, 2]

        requests.canary_failures = 0.0
        annotate(fleet, retry=timestamp(clock.now()))
        await clock.sleep(60)
        assert (progressing(fleet), images(fleet).count(NEW)) == ("CanaryBaking", 1)
        edit(fleet, lambda spec: yaml.safe_load(yaml.safe_dump(spec).replace(NEW, OLD)))
        await clock.sleep(200)
        assert (progressing(fleet), images(fleet), weights(fleet)) == ("RolloutComplete", [OLD] * 5, ["-"] * 5)

    analysed(story, strategy, {"steps": STEPS, "analysis": ANALYSIS})


@pytest.mark.submission
def test_a_canary_that_nobody_calls_waits_and_is_aborted():
    async def story(fleet, clock, requests):
        requests.most = 1
        set_image(fleet, NEW)
        await clock.sleep(300)
        assert fleet.plane.get(REF)["status"]["rollout"]["canary"]["analysis"] == "TooFewRequests"
        assert images(fleet).count(NEW) == 1
        annotate(fleet, abort=fleet.plane.get(REF)["status"]["rollout"]["hash"])
        await clock.sleep(200)
        assert (progressing(fleet), images(fleet), weights(fleet)) == ("RolloutHalted", [OLD] * 4, ["-"] * 4)

    analysed(story, "Surge", {"steps": STEPS, "analysis": ANALYSIS})
