import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import manifest, name_of
from modelplane.compose.capacity import READERS
from modelplane.sim.cluster.prerequisites import prerequisites
from modelplane.testing.cluster import gpu_pool, run_cluster

RESOURCES = {"gpu.nvidia.com": "nvidia.com/gpu"}


def declared(**scheduling):
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "east"}}},
        "nodePools": [{"name": "h200", "className": "h200-8x", "nodeCount": 1}],
        "scheduling": scheduling,
    }
    found = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "e"},
        "spec": spec,
    }
    return decode(InferenceCluster, found)


def made(quota=None, **scheduling):
    return list(prerequisites(declared(**scheduling), [gpu_pool()], RESOURCES, quota))


@pytest.mark.parametrize("scheduler", ["KAI", "Volcano", "Kueue"])
@pytest.mark.parametrize(("quota", "endless"), [(None, {-1, 1_000_000}), (12, {12})])
def test_the_queue_that_the_cluster_names_is_there(scheduler, quota, endless):
    reader = READERS[scheduler]
    items = [item for item in made(quota, type=scheduler, queue="team") if item["kind"] == reader.kind]
    assert [name_of(item) for item in items] == ["team"]
    assert reader.read(items[0], declared(type=scheduler, queue="team").spec.scheduling).quota in endless


@pytest.mark.parametrize(
    "scheduling",
    [
        {"type": "KAI", "queue": "{{ .Namespace }}"},
        {"type": "Volcano", "queue": "{{ .Namespace }}"},
        {"type": "Kueue", "queue": "{{ .Namespace }}"},
        {"type": "KAI", "defaultLabels": {"kai.scheduler/queue": "{{ .Namespace }}"}},
        {"schedulerName": "kai-scheduler", "defaultLabels": {"runai/queue": "{{ .Namespace }}"}},
    ],
)
def test_each_namespace_has_its_queue_where_the_cluster_names_them_so(scheduling):
    found = prerequisites(declared(**scheduling), [gpu_pool()], RESOURCES, 4, ["team", "app"])
    assert [name_of(item) for item in found if item["kind"] in {"Queue", "ClusterQueue"}] == ["app", "team"]


def test_priorities_are_there_and_no_queue_without_a_scheduler():
    items = made(type="None", priorities=[{"name": "high", "value": 7}])
    assert [(item["kind"], name_of(item)) for item in items] == [
        ("PriorityClass", "high"),
        ("StorageClass", "standard"),
    ]
    assert items[0]["value"] == 7


PASSED_ON = {"schedulerName": "kai-scheduler", "defaultLabels": {"runai/queue": "{{ .Namespace }}"}}


@pytest.mark.parametrize(
    ("scheduling", "tenants", "expected"),
    [
        (PASSED_ON, ["app-team", "research"], ["app-team", "research"]),
        (PASSED_ON, [], []),
        ({"schedulerName": "kai-scheduler"}, ["a"], ["default-queue"]),
        ({"schedulerName": "my-scheduler", "defaultLabels": {"runai/queue": "x"}}, ["a"], ["x"]),
        ({"type": "KAI", "queue": "q", "defaultLabels": {"kai.scheduler/queue": "{{.Cluster}}-x"}}, [], ["e-x", "q"]),
        ({"type": "KAI", "defaultLabels": {"kai.scheduler/queue": "{{ .Name }}"}}, ["a"], ["default-queue"]),
        ({"schedulerName": "volcano"}, [], ["default"]),
        (
            {"type": "Volcano", "defaultAnnotations": {"scheduling.volcano.sh/queue-name": "{{ .Namespace }}-q"}},
            ["a", "b"],
            ["a-q", "b-q"],
        ),
    ],
)
def test_queues_that_pods_name_are_there(scheduling, tenants, expected):
    items = prerequisites(declared(**scheduling), [gpu_pool()], RESOURCES, 5, tenants)
    assert [name_of(item) for item in items if item["kind"] == "Queue"] == expected


def test_what_was_declared_before_goes_and_what_others_made_stays():
    foreign = manifest("scheduling.run.ai/v2", "Queue", "mine", spec={"resources": {}})

    async def main(lab):
        lab.apply(foreign)
        lab.cluster.set_prerequisites(made(type="KAI", queue="team"))
        lab.cluster.set_prerequisites(made(5, type="KAI", queue="mine"))
        first = [(name_of(item), item["spec"]) for item in lab.store.list("scheduling.run.ai", "Queue")]
        lab.cluster.set_prerequisites(made(type="None"))
        return first, [name_of(item) for item in lab.store.list("scheduling.run.ai", "Queue")]

    assert run_cluster(main) == ([("mine", {"resources": {}})], ["mine"])
