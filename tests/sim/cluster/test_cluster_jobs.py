"""Jobs run to an end, in simulated time, and say how it went."""

from modelplane.api.objects import manifest, text_at
from modelplane.sim.cluster.objects import condition_of, with_spec
from modelplane.testing.cluster import TENANT_NAMESPACE, claim_template, gpu_pool, run_cluster


def job(*, seconds=30, code=0, policy="Never", claims=False, **spec):
    marks = {"sim.modelplane.ai/run-seconds": str(seconds), "sim.modelplane.ai/exit-code": str(code)}
    pod = {"restartPolicy": policy, "containers": [{"name": "load", "image": "modelplane/loader:v1"}]}
    pod["tolerations"] = [{"operator": "Exists"}]
    if claims:
        pod["resourceClaims"] = [{"name": "d", "resourceClaimTemplateName": "model"}]
    template = {"metadata": {"annotations": marks}, "spec": pod}
    return manifest("batch/v1", "Job", "load", namespace=TENANT_NAMESPACE, spec={"template": template, **spec})


def said(lab):
    found = lab.get(job())
    return {entry["type"]: entry["status"] for entry in found["status"].get("conditions", ())}


def phases(lab):
    return sorted(text_at(pod, "status", "phase") for pod in lab.pods())


def in_cluster(story):
    return run_cluster(story, pools=[gpu_pool()])


def test_a_job_is_complete_when_its_pod_has_ended():
    async def main(lab):
        lab.apply(job(seconds=30))
        await lab.clock.sleep(20)
        early = phases(lab), said(lab), lab.get(job())["status"]["active"]
        await lab.clock.sleep(20)
        status = lab.get(job())["status"]
        return early, phases(lab), said(lab), status["succeeded"], "completionTime" in status

    early, late, conditions, succeeded, timed = in_cluster(main)
    assert early == (["Running"], {}, 1)
    assert late == ["Succeeded"]
    assert conditions == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert (succeeded, timed) == (1, True)


def test_as_many_at_a_time_as_asked_for_until_enough_have_succeeded():
    most = []

    async def main(lab):
        lab.store.subscribe(lambda _: most.append(phases(lab).count("Running")))
        lab.apply(job(seconds=10, completions=5, parallelism=2))
        await lab.settle()
        return phases(lab), said(lab)["Complete"]

    assert in_cluster(main) == (["Succeeded"] * 5, "True")
    assert max(most) == 2


def test_one_that_fails_is_tried_again_later_each_time_until_the_limit():
    starts = []

    async def main(lab):
        lab.store.subscribe(
            lambda change: (
                starts.append(lab.clock.monotonic()) if (change.ref.kind, change.type) == ("Pod", "ADDED") else None
            )
        )
        lab.apply(job(seconds=1, code=3, backoffLimit=2))
        await lab.settle()
        return phases(lab), said(lab), condition_of(lab.get(job()), "Failed")["reason"]

    found, conditions, reason = in_cluster(main)
    assert found == ["Failed"] * 3
    assert conditions == {"FailureTarget": "True", "Failed": "True"}
    assert reason == "BackoffLimitExceeded"
    assert starts[2] - starts[1] > starts[1] - starts[0] > 10


def test_on_failure_the_container_is_restarted_in_its_pod():
    async def main(lab):
        lab.apply(job(seconds=1, code=1, policy="OnFailure"))
        await lab.clock.sleep(60)
        (pod,) = lab.pods()
        return pod["status"]["containerStatuses"][0]["restartCount"] > 1, pod["status"]["phase"]

    assert in_cluster(main) == (True, "Running")


def test_a_suspended_job_has_no_pods():
    async def main(lab):
        lab.apply(job(suspend=True))
        await lab.settle()
        before = phases(lab), said(lab)
        lab.apply(with_spec(lab.get(job()), suspend=False))
        await lab.settle()
        return before, phases(lab), said(lab)["Suspended"], said(lab)["Complete"]

    assert in_cluster(main) == (([], {"Suspended": "True"}), ["Succeeded"], "False", "True")


def test_devices_are_free_when_it_has_ended_and_it_goes_after_its_time():
    async def main(lab):
        lab.apply(claim_template(), job(seconds=5, claims=True, ttlSecondsAfterFinished=100))
        await lab.clock.sleep(3)
        held = len([claim for claim in lab.claims() if claim.get("status", {}).get("allocation")])
        await lab.clock.sleep(20)
        free = len([claim for claim in lab.claims() if claim.get("status", {}).get("allocation")])
        await lab.clock.sleep(120)
        return held, free, lab.store.list("batch", "Job"), lab.pods()

    assert in_cluster(main) == (1, 0, (), ())
