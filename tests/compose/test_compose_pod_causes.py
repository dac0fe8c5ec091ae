"""Pod statuses as kubelets, kube-scheduler, KAI and Kueue write them, and the cause that each of them becomes."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.reasons import Reason
from modelplane.compose.causes import MAX_MESSAGE, Cause
from modelplane.compose.pod_causes import by_engine, pod_cause, pods_cause, scheduling_reason, trimmed

MADE, BOUND, STARTED, LATER = (f"2026-11-16T08:2{minute}:00Z" for minute in (0, 1, 2, 9))
NOT_READY = {
    "type": "Ready",
    "status": "False",
    "reason": "ContainersNotReady",
    "message": "containers with unready status: [engine]",
    "lastTransitionTime": BOUND,
}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
RUNNING = {"running": {"startedAt": STARTED}}
EXITED = {"exitCode": 2, "reason": "Error", "startedAt": STARTED, "finishedAt": LATER}


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def container(state, *, name="engine", ready=False, **more):
    return {"name": name, "image": "vllm/vllm-openai:v1", "ready": ready, "restartCount": 0, "state": state, **more}


def pod(*containers, conditions=(SCHEDULED, NOT_READY), phase="Pending", **status):
    return {
        "metadata": {"name": "chat-0", "namespace": "mp-team", "creationTimestamp": MADE},
        "status": {"phase": phase, "conditions": list(conditions), "containerStatuses": list(containers), **status},
    }


def unscheduled(message, reason="Unschedulable"):
    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message, "lastTransitionTime": MADE}
    return pod(conditions=[said])


BACK_OFF = "back-off 5m0s restarting failed container=engine pod=chat-0_mp-team(1f3)"
PULL = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/vllm/vllm-openai:v1": '
    "docker.io/vllm/vllm-openai:v1: not found"
)
NO_DEVICES = "0/4 nodes are available: 4 cannot allocate all claims. preemption: 0/4 nodes are available."
INCOMPLETE = "/mnt/models: the volume is empty or its staging did not end: .modelplane/complete.json is not there"
CAUSES = {
    "a cache whose volume was emptied": (
        pod(
            container(waiting("PodInitializing")),
            initContainerStatuses=[
                container(
                    waiting("CrashLoopBackOff", BACK_OFF),
                    name="cache-check",
                    lastState={"terminated": {"exitCode": 74, "reason": "Error", "message": f"{INCOMPLETE}\n"}},
                )
            ],
        ),
        Cause(Reason.CACHE_INCOMPLETE, f"init container cache-check: exit code 74 (Error): {INCOMPLETE}", BOUND),
    ),
    "a check that was killed": (
        pod(
            container(waiting("PodInitializing")),
            initContainerStatuses=[
                container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, name="cache-check")
            ],
        ),
        Cause(Reason.OOM_KILLED, "init container cache-check: exit code 137 (OOMKilled)", BOUND),
    ),
    "an engine that is warmed up": (
        pod(container(RUNNING, ready=True), container(RUNNING, name="warm-up")),
        Cause(Reason.WARMING_UP, "container warm-up: its requests are not all answered yet", BOUND),
    ),
    "an engine that loads before it is warmed up": (
        pod(container(RUNNING), container(RUNNING, name="warm-up")),
        Cause(Reason.LOADING_WEIGHTS, "container engine runs and does not answer yet", STARTED),
    ),
    "a warm-up that fails": (
        pod(
            container(RUNNING, ready=True),
            container(
                waiting("CrashLoopBackOff"),
                name="warm-up",
                lastState={"terminated": {**EXITED, "message": "no answer"}},
            ),
        ),
        Cause(Reason.CRASH_LOOPING, "container warm-up: exit code 2 (Error): no answer", BOUND),
    ),
    "a program that cannot be started": (
        pod(
            container(waiting("CrashLoopBackOff"), lastState={"terminated": {"exitCode": 128, "reason": "StartError"}})
        ),
        Cause(Reason.CONTAINER_START_FAILED, "container engine: exit code 128 (StartError)", BOUND),
    ),
    "a crash of which nothing is known": (
        pod(container(waiting("CrashLoopBackOff"))),
        Cause(Reason.CRASH_LOOPING, "container engine: it exits again and again", BOUND),
    ),
    "an image that is not there": (
        pod(container(waiting("ErrImagePull", PULL))),
        Cause(Reason.IMAGE_PULL_FAILED, f"container engine: {PULL}", BOUND),
    ),
    "an image that is not there, in back-off": (
        pod(container(waiting("ImagePullBackOff", 'Back-off pulling image "vllm/vllm-openai:v1"'))),
        Cause(Reason.IMAGE_PULL_FAILED, 'container engine: Back-off pulling image "vllm/vllm-openai:v1"', BOUND),
    ),
    "an image that is not there, between two pulls": (
        pod(
            container(
                waiting("ImagePullBackOff", f'Back-off pulling image "vllm/vllm-openai:v1": ErrImagePull: {PULL}')
            )
        ),
        Cause(Reason.IMAGE_PULL_FAILED, f"container engine: {PULL}", BOUND),
    ),
    "an image whose name is wrong": (
        pod(container(waiting("InvalidImageName", "couldn't parse image name"))),
        Cause(
            Reason.IMAGE_PULL_FAILED, "container engine: image vllm/vllm-openai:v1: couldn't parse image name", BOUND
        ),
    ),
    "a secret that is missing": (
        pod(container(waiting("CreateContainerConfigError", 'secret "hf-token" not found'))),
        Cause(Reason.SECRET_MISSING, 'container engine: secret "hf-token" not found', BOUND),
    ),
    "a key of a secret that is missing": (
        pod(container(waiting("CreateContainerConfigError", "couldn't find key token in Secret mp-team/hf"))),
        Cause(Reason.SECRET_MISSING, "container engine: couldn't find key token in Secret mp-team/hf", BOUND),
    ),
    "a ConfigMap that is missing": (
        pod(container(waiting("CreateContainerConfigError", 'configmap "engine" not found'))),
        Cause(Reason.CONFIG_MAP_MISSING, 'container engine: configmap "engine" not found', BOUND),
    ),
    "a container that must not run as root": (
        pod(container(waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"))),
        Cause(
            Reason.CONTAINER_START_FAILED,
            "container engine: container has runAsNonRoot and image will run as root",
            BOUND,
        ),
    ),
    "a command that is not in the image": (
        pod(container(waiting("RunContainerError", 'exec: "vlm": executable file not found in $PATH'))),
        Cause(
            Reason.CONTAINER_START_FAILED, 'container engine: exec: "vlm": executable file not found in $PATH', BOUND
        ),
    ),
    "a flag that the engine does not know": (
        pod(
            container(
                waiting("CrashLoopBackOff", BACK_OFF),
                restartCount=7,
                lastState={
                    "terminated": {**EXITED, "message": "usage: vllm\nvllm: error: unrecognized arguments: --x\n"}
                },
            ),
            phase="Running",
        ),
        Cause(
            Reason.CRASH_LOOPING,
            "container engine: exit code 2 (Error): vllm: error: unrecognized arguments: --x",
            BOUND,
        ),
    ),
    "a crash before its back-off": (
        pod(container({"terminated": EXITED}), phase="Running"),
        Cause(Reason.CRASH_LOOPING, "container engine: exit code 2 (Error)", BOUND),
    ),
    "the next try of a container that crashes": (
        pod(container(RUNNING, restartCount=3, lastState={"terminated": EXITED}), phase="Running"),
        Cause(Reason.CRASH_LOOPING, "container engine: exit code 2 (Error)", BOUND),
    ),
    "a container that was killed for memory": (
        pod(
            container(
                waiting("CrashLoopBackOff", BACK_OFF),
                restartCount=2,
                lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            )
        ),
        Cause(Reason.OOM_KILLED, "container engine: exit code 137 (OOMKilled)", BOUND),
    ),
    "no node with the devices": (
        unscheduled(NO_DEVICES),
        Cause(Reason.CLAIM_PENDING, NO_DEVICES, MADE),
    ),
    "no node with the CPU": (
        unscheduled("0/4 nodes are available: 4 Insufficient cpu."),
        Cause(Reason.UNSCHEDULABLE, "0/4 nodes are available: 4 Insufficient cpu.", MADE),
    ),
    "a volume that is missing": (
        unscheduled('0/4 nodes are available: persistentvolumeclaim "weights" not found.'),
        Cause(Reason.VOLUME_PENDING, '0/4 nodes are available: persistentvolumeclaim "weights" not found.', MADE),
    ),
    "a queue that is missing": (
        unscheduled("queue app-team does not exist"),
        Cause(Reason.QUEUE_MISSING, "queue app-team does not exist", MADE),
    ),
    "a queue that is full": (
        unscheduled("queue team has a limit of 8 devices, 8 are used and 1 more are requested"),
        Cause(Reason.QUOTA_EXCEEDED, "queue team has a limit of 8 devices, 8 are used and 1 more are requested", MADE),
    ),
    "a gate": (
        unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        Cause(Reason.SCHEDULING_GATED, "Scheduling is blocked due to non-empty scheduling gates", MADE),
    ),
    "a gate that no scheduler has looked at": (
        {"metadata": {"name": "chat-0"}, "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}},
        Cause(Reason.SCHEDULING_GATED, "it waits for kueue.x-k8s.io/admission"),
    ),
    "a pod that was just created": (
        {"metadata": {"name": "chat-0"}, "spec": {"containers": []}},
        Cause(Reason.WORKLOAD_STARTING, "it is not scheduled yet"),
    ),
    "an image that is pulled": (
        pod(container(waiting("ContainerCreating"))),
        Cause(Reason.CONTAINER_CREATING, "container engine: is created", BOUND),
    ),
    "a pod that its node has not seen": (
        pod(conditions=[SCHEDULED]),
        Cause(Reason.CONTAINER_CREATING, "its node has not started it yet", BOUND),
    ),
    "an init container that fails": (
        pod(
            container(waiting("PodInitializing")),
            initContainerStatuses=[
                container(waiting("CrashLoopBackOff", BACK_OFF), name="fetch", lastState={"terminated": EXITED})
            ],
        ),
        Cause(Reason.CRASH_LOOPING, "init container fetch: exit code 2 (Error)", BOUND),
    ),
    "an init container that runs": (
        pod(
            container(waiting("PodInitializing")),
            initContainerStatuses=[
                container({"terminated": {"exitCode": 0}}, name="first", ready=True),
                container(RUNNING, name="fetch", started=False),
                container(waiting("PodInitializing"), name="last"),
            ],
        ),
        Cause(Reason.CONTAINER_CREATING, "init container fetch runs", BOUND),
    ),
    "an engine that loads": (
        pod(container(RUNNING, started=False), phase="Running"),
        Cause(Reason.LOADING_WEIGHTS, "container engine runs and does not answer yet", STARTED),
    ),
    "an engine that stopped answering": (
        pod(
            container(RUNNING, started=True),
            conditions=[SCHEDULED, {**NOT_READY, "lastTransitionTime": LATER}],
            phase="Running",
        ),
        Cause(Reason.UNHEALTHY, "container engine runs and its readiness probe fails", LATER),
    ),
    "a sidecar that crashes beside an engine that loads": (
        pod(
            container(RUNNING),
            container(waiting("CrashLoopBackOff", BACK_OFF), name="sidecar", lastState={"terminated": EXITED}),
            phase="Running",
        ),
        Cause(Reason.CRASH_LOOPING, "container sidecar: exit code 2 (Error)", BOUND),
    ),
    "a readiness gate": (
        pod(
            container(RUNNING, ready=True),
            conditions=[{**NOT_READY, "reason": "ReadinessGatesNotReady", "message": "the status is not set"}],
        ),
        Cause(Reason.UNHEALTHY, "the status is not set", BOUND),
    ),
    "a pod that is not ready and says nothing": (
        pod(container(RUNNING, ready=True), conditions=[{**NOT_READY, "message": ""}]),
        Cause(Reason.UNHEALTHY, "it is not ready", BOUND),
    ),
    "an eviction": (
        pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.", conditions=[NOT_READY]),
        Cause(Reason.POD_FAILED, "Evicted: The node was low on resource: memory.", BOUND),
    ),
    "a pod that ended without words of its own": (
        pod(container({"terminated": EXITED}), phase="Failed", conditions=[NOT_READY]),
        Cause(Reason.POD_FAILED, "exit code 2 (Error)", BOUND),
    ),
    "a pod that ended and says nothing": (
        pod(phase="Failed", conditions=[NOT_READY]),
        Cause(Reason.POD_FAILED, "it ended", BOUND),
    ),
    "a pod that the scheduler has not seen": (
        {"metadata": {"name": "chat-0"}, "spec": {}},
        Cause(Reason.WORKLOAD_STARTING, "it is not scheduled yet"),
    ),
    "a pod on a node whose kubelet has not seen it": (
        {"metadata": {"name": "chat-0"}, "spec": {"nodeName": "gpu-1"}},
        Cause(Reason.CONTAINER_CREATING, "its node has not started it yet"),
    ),
    "an init container that failed once and may start again": (
        pod(
            container(waiting("PodInitializing")),
            initContainerStatuses=[container({"terminated": {**EXITED, "exitCode": 1}}, name="fetch")],
        ),
        Cause(Reason.CRASH_LOOPING, "init container fetch: exit code 1 (Error)", BOUND),
    ),
    "an engine that loads after its init containers": (
        pod(
            container(RUNNING),
            initContainerStatuses=[container({"terminated": {**EXITED, "exitCode": 0}}, name="fetch")],
        ),
        Cause(Reason.LOADING_WEIGHTS, "container engine runs and does not answer yet", STARTED),
    ),
    "an engine that loads beside a sidecar among its init containers": (
        pod(
            container(RUNNING),
            initContainerStatuses=[{**container(RUNNING, name="proxy"), "started": True}],
        ),
        Cause(Reason.LOADING_WEIGHTS, "container engine runs and does not answer yet", STARTED),
    ),
    "a pod that is being deleted": (
        {"metadata": {"name": "chat-0", "deletionTimestamp": LATER}, "status": {"phase": "Running"}},
        Cause(Reason.TERMINATING, "it is being deleted", LATER),
    ),
    "one that became unready in the second that it started": (
        pod(container(RUNNING), conditions=[SCHEDULED, {**NOT_READY, "lastTransitionTime": STARTED}], phase="Running"),
        Cause(Reason.LOADING_WEIGHTS, "container engine runs and does not answer yet", STARTED),
    ),
    "one that was restarted and never failed": (
        pod(
            container(RUNNING, restartCount=3, lastState={"terminated": {**EXITED, "exitCode": 0}}),
            phase="Running",
        ),
        Cause(Reason.LOADING_WEIGHTS, "container engine runs and does not answer yet", STARTED),
    ),
    "a scheduler that says a reason alone": (
        unscheduled("", "Unschedulable"),
        Cause(Reason.UNSCHEDULABLE, "Unschedulable", MADE),
    ),
    "a pod that serves": (
        pod(container(RUNNING, ready=True), conditions=[{"type": "Ready", "status": "True"}], phase="Running"),
        None,
    ),
}


@pytest.mark.parametrize(("status", "cause"), CAUSES.values(), ids=CAUSES.keys())
def test_a_pod_has_one_cause(status, cause):
    assert pod_cause(status) == cause


@pytest.mark.parametrize(("status", "cause"), CAUSES.values(), ids=CAUSES.keys())
def test_what_is_kept_of_a_pod_has_the_same_cause(status, cause):
    labelled = copy.deepcopy(status)
    labelled["metadata"]["labels"] = {"modelplane.ai/replica": "r", "team": "t"}
    kept = trimmed(labelled)
    assert pod_cause(kept) == cause
    assert trimmed(kept) == kept
    assert kept["metadata"]["labels"] == {"modelplane.ai/replica": "r"}


@pytest.mark.parametrize(
    "reason",
    [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    ],
)
def test_every_word_of_kubelets_for_an_image_that_cannot_be_had(reason):
    words = f"container engine: image vllm/vllm-openai:v1: {reason}"
    assert pod_cause(pod(container(waiting(reason)))) == Cause(Reason.IMAGE_PULL_FAILED, words, BOUND)


@pytest.mark.parametrize("error", [PULL, f"{PULL}\n{'and so on ' * 200}"], ids=["short", "long"])
def test_an_image_that_cannot_be_had_is_one_cause_through_pull_and_back_off(error):
    """On a real kubelet the two follow each other every few seconds: each change would wake the replica."""
    pull = pod(container(waiting("ErrImagePull", error)))
    back_off = pod(
        container(waiting("ImagePullBackOff", f'Back-off pulling image "vllm/vllm-openai:v1": ErrImagePull: {error}'))
    )
    assert trimmed(pull) == trimmed(back_off)
    assert pod_cause(pull) == pod_cause(back_off)


def test_pods_of_engines_are_told_from_those_beside_them():
    engine, picker = ({"metadata": {"labels": labels}} for labels in ({"modelplane.ai/engine": "main"}, {"a": "b"}))
    assert by_engine([picker, engine, {}]) == ([engine], [picker, {}])


def test_the_worst_pod_is_the_replicas_cause_with_its_count():
    loading, crashing = CAUSES["an engine that loads"][0], CAUSES["a crash before its back-off"][0]
    later = copy.deepcopy(crashing)
    later["status"]["conditions"][1]["lastTransitionTime"] = LATER
    serving = CAUSES["a pod that serves"][0]
    message = "2 of 4 pods: container engine: exit code 2 (Error)"
    assert pods_cause([loading, later, serving, crashing]) == Cause(Reason.CRASH_LOOPING, message, BOUND)
    assert pods_cause([serving, serving]) is None
    assert pods_cause([]) is None


def test_pods_that_ended_or_leave_count_only_when_alone():
    evicted, loading = CAUSES["an eviction"][0], CAUSES["an engine that loads"][0]
    leaving = copy.deepcopy(loading)
    leaving["metadata"]["deletionTimestamp"] = LATER
    done = {**copy.deepcopy(evicted), "status": {"phase": "Succeeded"}}
    for ended in (evicted, done):
        assert pods_cause([ended, leaving, loading]) == Cause(
            Reason.LOADING_WEIGHTS, "1 of 1 pod: container engine runs and does not answer yet", STARTED
        )
    assert pods_cause([evicted, leaving]) == Cause(Reason.TERMINATING, "1 of 1 pod: it is being deleted", LATER)
    assert pods_cause([evicted]).reason is Reason.POD_FAILED


def test_a_pod_is_known_by_its_name_and_whose_it_is():
    labels = {"modelplane.ai/replica": "r", "modelplane.ai/engine": "main"}
    metadata = {"name": "chat-0", "namespace": "t-chat", "labels": {**labels, "team": "t"}, "uid": "u"}
    assert trimmed({"metadata": metadata})["metadata"] == {"name": "chat-0", "namespace": "t-chat", "labels": labels}


def test_all_that_is_kept_of_a_pod():
    ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": BOUND}
    probed = {"lastProbeTime": LATER, "observedGeneration": 1}
    entry = {"name": "engine", "image": "i:1", "ready": False, "started": False}
    crashed = {"exitCode": 1, "reason": "Error"}
    pod = {
        "metadata": {"name": "chat-0", "namespace": "t-chat", "uid": "u", "resourceVersion": "7"},
        "spec": {"nodeName": "gpu-1", "hostNetwork": True, "containers": [{"name": "engine"}]},
        "status": {
            "phase": "Running",
            "hostIP": "192.0.2.1",
            "conditions": [{**ready, **probed}, {"type": "ContainersReady", "status": "False"}],
            "containerStatuses": [
                {
                    **entry,
                    "imageID": "sha256:0",
                    "restartCount": 9,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                    "lastState": {"terminated": {**crashed, "message": "no CUDA device\n", "finishedAt": LATER}},
                }
            ],
            "ephemeralContainerStatuses": [],
        },
    }
    assert trimmed(pod) == {
        "metadata": {"name": "chat-0", "namespace": "t-chat", "labels": {}},
        "spec": {"nodeName": "gpu-1"},
        "status": {
            "phase": "Running",
            "conditions": [ready],
            "containerStatuses": [
                {
                    **entry,
                    "restartCount": 2,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {**crashed, "message": "no CUDA device"}},
                }
            ],
        },
    }


def test_a_back_off_that_grows_changes_no_cause():
    first = CAUSES["a flag that the engine does not know"][0]
    second = copy.deepcopy(first)
    entry = second["status"]["containerStatuses"][0]
    entry["restartCount"] += 1
    entry["state"]["waiting"]["message"] = BACK_OFF.replace("5m0s", "10s")
    entry["lastState"]["terminated"]["finishedAt"] = "2026-11-16T09:00:00Z"
    assert trimmed(first) == trimmed(second)
    entry["lastState"]["terminated"]["exitCode"] = 1
    assert trimmed(first) != trimmed(second)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("LocalQueue serving doesn't exist", Reason.QUEUE_MISSING),
        ("ClusterQueue serving is inactive: FlavorNotFound", Reason.QUEUE_MISSING),
        (
            "couldn't assign flavors: insufficient unused quota for gpu in flavor h200, 3 more needed",
            Reason.QUOTA_EXCEEDED,
        ),
        ('pods "chat-0" is forbidden: exceeded quota: gpus, requested: cpu=8, used: cpu=8', Reason.QUOTA_EXCEEDED),
        ('waiting for dynamic resource controller to create the resourceclaim "chat-0-gpu"', Reason.CLAIM_PENDING),
        ("pod has unbound immediate PersistentVolumeClaims", Reason.VOLUME_PENDING),
        ("1 node(s) had untolerated taint {nvidia.com/gpu: }", Reason.UNSCHEDULABLE),
    ],
)
def test_words_of_schedulers_and_queues(said, reason):
    assert scheduling_reason(said) is reason


FIELDS = (
    *("type", "status", "reason", "message", "conditions", "phase", "name", "image", "ready", "exitCode"),
    *("state", "lastState", "waiting", "running", "terminated", "containerStatuses", "initContainerStatuses"),
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=30)
@given(st.lists(st.fixed_dictionaries({"metadata": junk, "status": junk}), max_size=4))
def test_any_status_gives_a_bounded_answer(pods):
    found = pods_cause(pods)
    assert found is None or len(found.message) <= 2 * MAX_MESSAGE + 100
    assert [pod_cause(trimmed(each)) for each in pods] == [pod_cause(each) for each in pods]
