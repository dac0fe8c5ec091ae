"""What is pure in bringing up KAI, Kueue and Volcano, and in the checks on them."""

from collections import Counter

import pytest
import yaml

from lab.components import COMPONENTS, Set
from lab.e2e.gangs import CASES, FLEETS, unmarked
from lab.e2e.queues import ABSENT, QUEUE, late_queue
from lab.e2e.racks import KEY, TAINT
from lab.fleet import read_fleet
from lab.hardware import hardware
from lab.manifests import read_folder
from lab.scenario import Mark, Result, Scenario, report, with_section
from lab.schedulers import SCHEDULERS, kueue, schedulers_of, volcano
from lab.schedulers.parts import may_allocate

ALL = tuple(SCHEDULERS)


@pytest.mark.parametrize(
    ("named", "fleet", "options", "expected"),
    [
        pytest.param("KAI", ["KAI"], [], (), id="not asked for"),
        pytest.param("KAI", ["KAI", "Kueue"], ALL, (Set.KAI, Set.VOLCANO), id="its own, and one that nobody names"),
        pytest.param("None", ["KAI", "None"], [Set.KAI], (), id="another cluster's"),
        pytest.param("None", ["None"], [Set.KUEUE, Set.GATEWAY], (Set.KUEUE,), id="nobody's: everywhere"),
    ],
)
def test_a_cluster_has_the_scheduler_that_it_names(named, fleet, options, expected):
    assert schedulers_of(named, fleet, options) == expected


def binding(kind: str) -> dict:
    subjects = [{"kind": "ServiceAccount", "name": "manager", "namespace": "kueue-system"}]
    return {"kind": kind, "metadata": {"name": "b"}, "roleRef": {"name": "r"}, "subjects": subjects}


def test_kueues_objects_reach_a_process_of_this_machine():
    service = {"clientConfig": {"service": {"name": "kueue-webhook-service", "path": "/x"}}}
    conversion = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], **service}}
    made = kueue.adapted(
        [
            {"kind": "Deployment", "metadata": {"name": "kueue-controller-manager"}},
            {"kind": "Service", "metadata": {"name": "kueue-visibility-server"}, "spec": {}},
            {"kind": "Service", "metadata": {"name": "kueue-webhook-service"}, "spec": {"ports": [{"port": 443}]}},
            {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [{"name": "w", **service}]},
            {"kind": "CustomResourceDefinition", "metadata": {"name": "c"}, "spec": {"conversion": conversion}},
            {"kind": "CustomResourceDefinition", "metadata": {"name": "d"}, "spec": {"conversion": {}}},
            binding("ClusterRoleBinding"),
        ],
        4711,
    )
    reached = {"clientConfig": {"service": {"name": "kueue-webhook-service", "path": "/x", "port": 4711}}}
    user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "kueue"}
    assert made == [
        {
            "kind": "Service",
            "metadata": {"name": "kueue-webhook-service"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [{"name": "w", **reached}]},
        {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "c"},
            "spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], **reached}}},
        },
        {"kind": "CustomResourceDefinition", "metadata": {"name": "d"}, "spec": {"conversion": {}}},
        {**binding("ClusterRoleBinding"), "subjects": [user]},
    ]


def test_volcano_is_configured_as_upstream_does_it_and_reads_claims():
    upstream = {
        "actions": "enqueue, allocate",
        "tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "predicates", "arguments": {"a": 1}}]}],
    }
    item = {
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap"},
        "data": {"volcano-scheduler.conf": yaml.safe_dump(upstream)},
    }
    arguments = {"a": 1, "predicate.DynamicResourceAllocationEnable": True}
    assert yaml.safe_load(volcano.scheduler_config([{"kind": "Namespace", "metadata": {"name": "x"}}, item])) == {
        "actions": "enqueue, allocate",
        "tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "predicates", "arguments": arguments}]}],
    }


def test_who_allocates_claims_may():
    role, bound = may_allocate("binder")
    assert role["rules"][0]["resources"] == ["resourceclaims/binding"]
    assert (bound["roleRef"]["name"], bound["subjects"][0]["name"]) == (role["metadata"]["name"], "binder")


def test_a_set_left_to_kube_scheduler_has_no_marks():
    pod = {
        "metadata": {"labels": {"kai.scheduler/queue": "serving"}, "annotations": {"pod-group-name": "x"}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "schedulingGates": [{"name": "g"}],
            "nodeSelector": {"pool": "h200"},
        },
    }
    rendered = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "big", "namespace": "tenant", "labels": {"kai.scheduler/queue": "serving"}, "uid": "1"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": pod, "workerTemplate": pod}},
        "status": {"replicas": 1},
    }
    bare = {"metadata": {}, "spec": {"nodeSelector": {"pool": "h200"}}}
    assert unmarked(rendered) == {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "alone", "namespace": "tenant"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": bare, "workerTemplate": bare}},
    }


@pytest.mark.parametrize("scheduler", ALL)
def test_each_scheduler_has_a_fleet_of_one_cluster_with_the_queue_and_the_version_that_is_built(scheduler):
    case = CASES[scheduler]
    (site,) = read_fleet(FLEETS / scheduler.value)
    assert (site.name, site.scheduler) == (case.site, case.name)
    (cluster,) = [item for item in read_folder(case.folder) if item["kind"] == "InferenceCluster"]
    said = cluster["spec"]["scheduling"]
    assert (said["queue"], f"v{said['version']}") == (QUEUE, case.module.version)
    (queue,) = [item for item in read_folder(case.folder / "cluster") if item["metadata"]["name"] == QUEUE]
    assert late_queue(case.folder) == {**queue, "metadata": {"name": ABSENT}}
    assert {part.module for part in COMPONENTS if part.set is scheduler} == {case.module}


@pytest.mark.parametrize("scheduler", [each for each in ALL if CASES[each].racks])
def test_a_fleet_with_racks_has_nodes_in_two_of_them(scheduler):
    (site,) = read_fleet(FLEETS / scheduler.value)
    nodes = [item for item in hardware(site.pools) if item["kind"] == "Node"]
    racks = Counter(rack for node in nodes if (rack := node["metadata"]["labels"].get(KEY)))
    assert racks == {"racks-domain-0": 3, "racks-domain-1": 3}
    tainted = [node for node in nodes if TAINT in {each["key"] for each in node["spec"].get("taints", ())}]
    assert len(tainted) == 6


def scenario(text: str) -> Scenario:
    return Scenario(print, results=[Result("a step", Mark.PASSED, text, 1.0)])


def test_a_section_of_the_report_takes_the_place_of_its_last_one():
    page = report(scenario("core"), "The lab's last run", ["a fact"])
    once = with_section(
        with_section(page, scenario("old"), "Under KAI", ["f"]), scenario("kueue"), "Under Kueue", ["f"]
    )
    twice = with_section(once, scenario("new"), "Under KAI", ["f"])
    assert twice.startswith(page)
    assert [line for line in twice.splitlines() if line.startswith("#")] == [
        "# The lab's last run",
        "## Under Kueue",
        "## Under KAI",
    ]
    assert ("| new |" in twice, "| old |" in twice, "\n\n\n" in twice) == (True, False, False)
