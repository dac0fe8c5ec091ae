import pytest

from modelplane.api.codec import decode, encode
from modelplane.api.models import ModelReplica, Scheduling
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import Requirement
from modelplane.compose.gang import SCHEDULERS, scheduling_fault


def objects(made, kind: str) -> list[dict]:
    found = (desired.target.manifest for desired in made.compose().desired.values())
    return [item for item in found if item["kind"] == kind]


def workload(made) -> dict:
    return next(d.target.manifest for key, d in made.compose().desired.items() if key.startswith("workload-"))


@pytest.mark.parametrize(
    ("version", "label"),
    [
        ("0.5", "runai/queue"),
        ("v0.5.9", "runai/queue"),
        ("0.6.0", "kai.scheduler/queue"),
        (None, "kai.scheduler/queue"),
    ],
)
def test_kai_finds_its_queue_by_the_label_of_its_version(scene, version, label):
    made = scene("single-gpu", "native", "kai", **({"version": version} if version else {}))
    if version is None:
        del made.required["cluster"][0]["spec"]["scheduling"]["version"]
    found = workload(made)
    assert found["metadata"]["labels"][label] == "serving"
    assert found["spec"]["template"]["metadata"]["labels"][label] == "serving"


@pytest.mark.parametrize(
    ("shape", "backend", "members"),
    [
        ("single-gpu", "native", None),
        ("pipeline-2", "native", None),
        ("kimi-k2-5p3d", "native", 11),
        ("single-gpu", "kserve", None),
        ("pipeline-4", "kserve", 8),
        ("kimi-k2-5p3d", "kserve", 11),
    ],
)
def test_kai_gets_a_group_where_its_own_grouper_makes_none(scene, shape, backend, members):
    found = objects(scene(shape, backend, "kai"), "PodGroup")
    assert [item["spec"]["minMember"] for item in found] == ([members] if members else [])


@pytest.mark.parametrize(("version", "ours"), [("0.14.0", False), ("0.15.0", True), ("1.0", True), (None, True)])
def test_kais_grouper_is_told_to_keep_away_where_it_listens(scene, version, ours):
    made = scene("kimi-k2-5p3d", "native", "kai", version=version)
    pod = workload(made)["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"]
    told = {"pod-group-name": made.replica.metadata.name, "kai.scheduler/skip-podgrouper": "true"}
    assert {key: pod[key] for key in told if key in pod} == (told if ours else {})
    assert len(objects(made, "PodGroup")) == ours


@pytest.mark.parametrize(("version", "api"), [(None, "v1beta2"), ("0.14", "v1beta1"), ("0.19.2", "v1beta2")])
def test_kueue_has_a_queue_in_the_tenants_namespace(scene, version, api):
    made = scene("single-gpu", "native", "kueue", **({"version": version} if version else {}))
    (queue,) = objects(made, "LocalQueue")
    assert queue["apiVersion"] == f"kueue.x-k8s.io/{api}"
    assert queue["spec"] == {"clusterQueue": "serving"}
    assert queue["metadata"]["namespace"] == workload(made)["metadata"]["namespace"]


@pytest.mark.parametrize(
    ("shape", "backend"), [("single-gpu", "native"), ("pipeline-4", "native"), ("pipeline-4", "kserve")]
)
def test_kueue_holds_pods_back_and_finds_them_by_what_makes_them(scene, shape, backend):
    made = scene(shape, backend, "kueue")
    found = workload(made)
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
    text = str(found["spec"])
    assert text.count("'kueue.x-k8s.io/admission'") == (1 if shape == "single-gpu" else 2)
    suffix = "-kserve-mn-prefill" if backend == "kserve" else ""
    assert len(found["metadata"]["name"] + suffix) <= 39


@pytest.mark.parametrize(
    ("scheduler", "scheduling", "expected"),
    [
        ("kueue", {}, ("kueue.x-k8s.io/v1beta2", "Workload")),
        ("kueue", {"version": "0.14"}, ("kueue.x-k8s.io/v1beta1", "Workload")),
        ("kueue", {"queue": ""}, None),
        ("kai", {}, None),
        ("volcano", {}, None),
        ("none", {}, None),
    ],
)
def test_by_what_pods_are_admitted_is_read(scene, scheduler, scheduling, expected):
    made = scene("single-gpu", "native", scheduler, **scheduling)
    read = made.compose().requirements.get("admissions")
    namespace = remote_namespace(made.replica.metadata.namespace)
    assert read == (Requirement(*expected, namespace=namespace, cluster="east") if expected else None)


def test_kueue_is_told_the_workload_class_of_a_priority(scene):
    labels = workload(scene("tensor-8", "native", "kueue"))["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/priority-class"] == "serving-production"


@pytest.mark.parametrize(
    ("shape", "backend", "members"),
    [
        ("single-gpu", "native", None),
        ("pipeline-4", "native", 8),
        ("v03-gang", "native", 6),
        ("kimi-k2-5p3d", "kserve", 11),
    ],
)
def test_volcano_gets_a_group_for_pods_that_need_each_other(scene, shape, backend, members):
    made = scene(shape, backend, "volcano")
    found = objects(made, "PodGroup")
    assert [(item["spec"]["minMember"], item["spec"]["queue"]) for item in found] == (
        [(members, "serving")] if members else []
    )
    assert ("scheduling.k8s.io/group-name" in str(workload(made))) is bool(members)


def test_volcano_groups_a_replica_one_of_whose_engines_is_a_gang(scene):
    made = scene("pipeline-2", "native", "volcano")
    replica, other = encode(made.replica), encode(scene("single-gpu").replica)
    replica["spec"]["engines"].append({**other["spec"]["engines"][0], "name": "other"})
    made.replica = decode(ModelReplica, replica)
    (found,) = objects(made, "PodGroup")
    assert found["spec"]["minMember"] == sum(
        engine.copies * sum(member.nodes for member in engine.members) for engine in made.replica.spec.engines
    )


@pytest.mark.parametrize("scheduler", ["kai", "kueue", "volcano"])
def test_without_a_queue_nothing_names_one(scene, scheduler):
    made = scene("kimi-k2-5p3d", "native", scheduler)
    del made.required["cluster"][0]["spec"]["scheduling"]["queue"]
    result = made.compose()
    assert result.conditions[0].status == "True"
    assert "'serving'" not in str({key: item.target.manifest for key, item in result.desired.items()})


def test_kais_group_without_a_queue_is_in_its_default_queue(scene):
    made = scene("kimi-k2-5p3d", "native", "kai")
    del made.required["cluster"][0]["spec"]["scheduling"]["queue"]
    assert [item["spec"]["queue"] for item in objects(made, "PodGroup")] == ["default-queue"]


def per_namespace(made, stated):
    """The scene on a cluster with a queue for each namespace, stated or passed through to the pods."""
    scheduling = made.required["cluster"][0]["spec"]["scheduling"]
    del scheduling["queue"]
    scheduling |= stated
    return made


@pytest.mark.parametrize(
    ("scheduler", "stated"),
    [
        ("kai", {"queue": "{{ .Namespace }}"}),
        ("kai", {"defaultLabels": {"kai.scheduler/queue": "{{ .Namespace }}"}}),
        ("volcano", {"queue": "{{ .Namespace }}"}),
        ("volcano", {"defaultAnnotations": {"scheduling.volcano.sh/queue-name": "{{ .Namespace }}"}}),
    ],
)
def test_a_group_is_in_the_queue_of_its_namespace(scene, scheduler, stated):
    made = per_namespace(scene("kimi-k2-5p3d", "native", scheduler), stated)
    namespace = made.replica.metadata.namespace
    assert [item["spec"]["queue"] for item in objects(made, "PodGroup")] == [namespace]
    assert "{{" not in str([desired.target.manifest for desired in made.compose().desired.values()])


def test_kueue_has_the_queue_of_a_namespace(scene):
    made = per_namespace(scene("single-gpu", "native", "kueue"), {"queue": "q-{{ .Namespace }}"})
    (queue,) = objects(made, "LocalQueue")
    name = f"q-{made.replica.metadata.namespace}"
    assert (queue["metadata"]["name"], queue["spec"]) == (name, {"clusterQueue": name})
    assert workload(made)["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == name


def test_a_queue_of_a_namespace_that_is_no_label_value_is_refused(scene):
    made = per_namespace(scene("single-gpu", "native", "kai"), {"queue": "a" * 60 + "-{{ .Namespace }}"})
    condition = made.compose().conditions[0]
    assert (condition.type, condition.reason) == ("Accepted", "Invalid")
    assert "which is no label value" in condition.message


@pytest.mark.parametrize("scheduler", ["kai", "kueue"])
def test_a_queue_that_is_no_label_value_is_refused(scene, scheduler):
    condition = scene("single-gpu", "native", scheduler, queue="a" * 64).compose().conditions[0]
    assert (condition.type, condition.reason) == ("Accepted", "Invalid")
    assert "spec.scheduling.queue" in condition.message


def test_a_version_that_is_none_is_refused(scene):
    condition = scene("single-gpu", "native", "kai", version="newest").compose().conditions[0]
    assert condition.message == "cluster east: spec.scheduling.version: 'newest' is no version; running pods stay"


def test_a_priority_that_the_cluster_does_not_offer_is_refused(scene):
    condition = scene("tensor-8", priorities=[{"name": "batch", "value": 1}]).compose().conditions[0]
    assert condition.message == (
        "cluster east: priority 'production' is not among the cluster's: batch; running pods stay"
    )


PREEMPTIBILITY = "kai.scheduler/preemptibility"


@pytest.mark.parametrize("backend", ["native", "kserve"])
@pytest.mark.parametrize("shape", ["single-gpu", "pipeline-2"])
@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ({}, {PREEMPTIBILITY: "non-preemptible"}),
        ({"version": "0.11.0"}, {"priorityClassName": "inference"}),
        ({"version": "0.12.0"}, {PREEMPTIBILITY: "non-preemptible"}),
        ({"defaultPriority": "batch"}, {}),
        ({"defaultLabels": {PREEMPTIBILITY: "preemptible"}}, {PREEMPTIBILITY: "preemptible"}),
    ],
)
def test_kai_does_not_preempt_serving_unless_the_cluster_says_so(scene, shape, backend, scheduling, expected):
    found = workload(scene(shape, backend, "kai", **scheduling))["metadata"]["labels"]
    assert {key: found[key] for key in found if key in {PREEMPTIBILITY, "priorityClassName"}} == expected


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ({"version": None}, {"preemptibility": "non-preemptible"}),
        ({}, {"preemptibility": "non-preemptible", "stalenessGracePeriod": "420s"}),
        ({"version": "0.16.2"}, {"preemptibility": "non-preemptible"}),
        (
            {"version": "0.16.2", "defaultLabels": {"kai.scheduler/preemptibility": "preemptible"}},
            {"preemptibility": "preemptible"},
        ),
        (
            {"version": "0.16.2", "defaultLabels": {"kai.scheduler/preemptibility": "other"}},
            {"preemptibility": "non-preemptible"},
        ),
        (
            {"version": "v1.0", "defaultPriority": "batch"},
            {"priorityClassName": "batch", "stalenessGracePeriod": "420s"},
        ),
    ],
)
def test_kais_group_stands_as_serving_and_outlives_the_restart_of_a_pod(scene, scheduling, expected):
    (found,) = objects(scene("pipeline-4", "kserve", "kai", **scheduling), "PodGroup")
    assert {key: value for key, value in found["spec"].items() if key not in {"minMember", "queue"}} == expected


def test_kais_group_waits_for_the_pod_that_takes_longest_to_stop(scene):
    made = scene("kimi-k2-5p3d", "native", "kai")
    replica = encode(made.replica)
    for engine, seconds in zip(replica["spec"]["engines"], (60, 600), strict=True):
        for member in engine["members"]:
            member["template"]["spec"]["terminationGracePeriodSeconds"] = seconds
    made.replica = decode(ModelReplica, replica)
    (found,) = objects(made, "PodGroup")
    assert found["spec"]["stalenessGracePeriod"] == "900s"


def test_kueues_queue_is_for_engines_alone(scene):
    made = scene("kimi-k2-5p3d", "native", "kueue")
    picker = made.compose().desired["picker"].target.manifest
    assert "kueue.x-k8s.io" not in str(picker)
    assert "kueue.x-k8s.io/queue-name" in str(workload(made))


@pytest.mark.parametrize(
    ("scheduler", "template", "marks"),
    [
        ("none", {}, {}),
        ("kai", {"schedulerName": "kai-scheduler"}, {"kai.scheduler/queue": "serving"}),
        ("kueue", {}, {}),
        ("volcano", {"schedulerName": "volcano"}, {"scheduling.volcano.sh/queue-name": "serving"}),
    ],
)
def test_kserves_picker_goes_by_the_clusters_scheduler(scene, scheduler, template, marks):
    picker = workload(scene("kimi-k2-5p3d", "kserve", scheduler))["spec"]["router"]["scheduler"]
    expected = {"containers": [{"name": "main"}], **template, "priorityClassName": "production"}
    assert picker["template"] == expected
    assert marks.items() <= {**picker["labels"], **picker["annotations"]}.items()


def engines_of(made):
    template = workload(made)["spec"]["leaderWorkerTemplate"]
    return [template[name]["spec"]["containers"][0]["resources"] for name in ("leaderTemplate", "workerTemplate")]


def test_volcano_counts_no_pod_of_a_gang_as_started_before_it_is(scene):
    for resources in engines_of(scene("pipeline-2", "native", "volcano")):
        assert resources["requests"] == {"cpu": "1m"}
        assert resources["claims"]
    assert all("requests" not in resources for resources in engines_of(scene("pipeline-2", "native", "kai")))
    assert "requests" not in str(workload(scene("single-gpu", "native", "volcano")))


@pytest.mark.parametrize(
    ("given", "requests"),
    [
        pytest.param({}, {"cpu": "1m"}, id="nothing"),
        pytest.param({"requests": {"example.com/nic": "1"}}, {"example.com/nic": "1", "cpu": "1m"}, id="a device"),
        pytest.param({"requests": {"memory": "1Gi"}}, {"memory": "1Gi"}, id="memory"),
        pytest.param({"limits": {"cpu": "8"}}, None, id="a limit is a request"),
    ],
)
def test_under_volcano_what_an_engine_asks_for_stays(scene, given, requests):
    made = scene("pipeline-2", "native", "volcano")
    replica = encode(made.replica)
    for engine in replica["spec"]["engines"]:
        for member in engine["members"]:
            member["template"]["spec"]["containers"][0]["resources"] = given
    made.replica = decode(ModelReplica, replica)
    assert [found.get("requests") for found in engines_of(made)] == [requests, requests]


PLACEHOLDERS = "{{ .Namespace }}, {{ .Name }}, {{ .Replica }}, {{ .Cluster }}, {{ .Pool }}, {{ .Priority }}"


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ({"type": "KAI", "queue": "serving"}, None),
        ({"type": "KAI", "queue": "{{ .Namespace }}"}, None),
        ({"type": "KAI", "version": "newest"}, "spec.scheduling.version: 'newest' is no version"),
        (
            {"type": "KAI", "queue": "{{ .Pool }}-{{ .Namespace }}"},
            "spec.scheduling.queue: '{{ .Pool }}-{{ .Namespace }}' may hold {{ .Namespace }}, and no other token",
        ),
        (
            {"type": "KAI", "queue": "a b"},
            "spec.scheduling.queue: 'a b' is no label value, and KAI finds queues by label",
        ),
        ({"type": "Volcano", "queue": "a b"}, None),
        ({"type": "None", "queue": "a b"}, None),
        (
            {"type": "KAI", "defaultLabels": {"team": "{{ .Team }}"}},
            f"spec.scheduling.defaultLabels[team]: '{{{{ .Team }}}}' is not a placeholder; known are {PLACEHOLDERS}",
        ),
    ],
)
def test_what_is_wrong_with_a_scheduler_names_the_field(scheduling, expected):
    assert scheduling_fault(decode(Scheduling, scheduling)) == expected


@pytest.mark.parametrize(
    ("name", "type_"),
    [("kai-scheduler", "KAI"), ("volcano", "Volcano"), ("default-scheduler", None), (None, None)],
)
def test_pods_that_are_sent_to_a_gang_scheduler_stay_in_no_domain_without_its_type(name, type_):
    """It would wait for workers, which wait for their leader."""
    why = f"spec.scheduling.type: {name} keeps an engine in one domain of a fabric only where the type is {type_}"
    found = [SCHEDULERS[each].domain_fault(Scheduling(type_=each, scheduler_name=name)) for each in ("None", "KAI")]
    assert found == [why if type_ else None, None]
