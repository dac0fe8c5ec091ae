import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.models import Attribute, BoundPod, GpuPool, InferenceCluster, NodePool, PoolDevice, Queue
from modelplane.compose import capacity
from modelplane.compose.capacity import ObservedPool, bound_pods, kai, kueue, refined, requeue_after_s, volcano
from modelplane.compose.capacity.devices import PublishedDevice, observed_pools
from modelplane.compose.contract import ComposeRequest, Requirement
from modelplane.k8s.dra import DeviceId

DRIVER = "gpu.nvidia.com"
HOPPER = {"architecture": Attribute(string="Hopper")}


def kai_queue(gpu: dict | None, allocated: object = None) -> dict:
    status = {"allocated": {"nvidia.com/gpu": allocated, "cpu": "7"}} if allocated is not None else {}
    return {
        "metadata": {"name": "q"},
        "spec": {"resources": {"gpu": gpu} if gpu is not None else {}},
        "status": status,
    }


@pytest.mark.parametrize(
    ("item", "quota", "used"),
    [
        (kai_queue({"quota": 8, "limit": 16}, "3"), 8, 3),
        (kai_queue({"quota": 8, "limit": 0}), 8, 0),
        (kai_queue({"quota": -1}), -1, 0),
        (kai_queue({"quota": 4, "limit": -1}, "1500m"), 4, 2),
        (kai_queue({"limit": -1}), 0, 0),
        (kai_queue({"quota": 2.7}), 2, 0),
        (kai_queue(None), 0, 0),
        (kai_queue({"quota": "many"}, "garbage"), 0, 0),
    ],
)
def test_kai(item, quota, used):
    assert kai.read(item) == Queue(name="q", scheduler="KAI", quota=quota, used=used)


@pytest.mark.parametrize(
    ("gpu", "quota"),
    [({"quota": 8, "limit": 16}, 16), ({"quota": 4, "limit": -1}, -1), ({"quota": -1}, -1), ({"quota": 8}, 8)],
)
def test_only_pods_that_may_be_preempted_use_a_kai_queue_beyond_its_quota(gpu, quota):
    assert kai.read(kai_queue(gpu), preemptible=True).quota == quota


LOW, HIGH = {"name": "train", "value": 50}, {"name": "inference", "value": 125}


@pytest.mark.parametrize(
    ("scheduling", "preemptible"),
    [
        ({}, False),
        ({"priorities": [LOW]}, False),
        ({"priorities": [LOW], "defaultPriority": "train"}, True),
        ({"priorities": [LOW, HIGH], "defaultPriority": "train"}, False),
        ({"defaultPriority": "train"}, False),
        ({"priorities": [{"name": "train", "value": 99}], "defaultPriority": "train"}, True),
        ({"priorities": [{"name": "train", "value": 100}], "defaultPriority": "train"}, False),
        ({"defaultLabels": {"kai.scheduler/preemptibility": "preemptible"}}, True),
        ({"defaultLabels": {"kai.scheduler/preemptibility": "non-preemptible"}, "priorities": [LOW],
          "defaultPriority": "train"}, False),
    ],
)  # fmt: skip
def test_a_clusters_pods_may_be_preempted_when_all_of_them_are_known_to(scheduling, preemptible):
    made = cluster("KAI", scheduling=scheduling)
    assert kai.is_preemptible(made.spec.scheduling) is preemptible
    read = ComposeRequest(made, required={"observed-queues": (kai_queue({"quota": 4, "limit": 9}),)})
    assert [queue.quota for queue in capacity.queues_of(read)] == [9 if preemptible else 4]


CPU_ONLY = [{"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9"}, {"name": "memory"}]}]}]


def cluster_queue(**spec) -> dict:
    flavor = {
        "name": "h200",
        "resources": [{"name": "cpu", "nominalQuota": "100"}, {"name": "nvidia.com/gpu", "nominalQuota": 16}],
    }
    other = {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]}
    reserved = {"name": "h200", "resources": [{"name": "nvidia.com/gpu", "total": "12"}, {"name": "cpu", "total": 9}]}
    return {
        "metadata": {"name": "q"},
        "spec": {"resourceGroups": [{"flavors": [flavor, other]}], **spec},
        "status": {"flavorsReservation": [reserved], "pendingWorkloads": 3},
    }


@pytest.mark.parametrize(
    ("item", "quota"),
    [
        (cluster_queue(), 24),
        (cluster_queue(stopPolicy="Hold"), 0),
        (cluster_queue(resourceGroups=CPU_ONLY), -1),
        (cluster_queue(resourceGroups=CPU_ONLY, stopPolicy="Hold"), 0),
        (cluster_queue(resourceGroups=[7, *cluster_queue()["spec"]["resourceGroups"]]), 24),
        ({**cluster_queue(), "status": {"conditions": [{"type": "Active", "status": "False"}]}}, 0),
        ({**cluster_queue(), "status": {"conditions": [{"type": "Other"}, {"type": "Active", "status": "True"}]}}, 24),
        ({"metadata": {"name": "q"}}, 0),
    ],
)
def test_kueue_quota(item, quota):
    assert kueue.read(item).quota == quota


def test_kueue_counts_what_is_reserved_and_who_waits():
    assert kueue.read(cluster_queue()) == Queue(name="q", scheduler="Kueue", quota=24, used=12, pending=3)


def test_a_local_queue_goes_by_its_tenant_and_has_no_quota_of_its_own():
    item = {**cluster_queue(), "metadata": {"name": "q", "namespace": "mp-chat"}}
    assert kueue.read(item) == Queue(name="mp-chat/q", scheduler="Kueue", used=12, pending=3)


OF_NODES = ("cpu", "memory", "ephemeral-storage", "pods", "storage", "hugepages-2Mi")


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {}, (-1, 0, None)),
        ({"capability": {"cpu": "10"}}, {}, (-1, 0, None)),
        ({"capability": dict.fromkeys(OF_NODES, "10")}, {"allocated": dict.fromkeys(OF_NODES, "1")}, (-1, 0, None)),
        ({"capability": {"nvidia.com/gpu": "8"}}, {"allocated": {"nvidia.com/gpu": "2"}, "pending": 1}, (8, 2, 1)),
        ({"capability": {"nvidia.com/gpu": "8"}}, {"state": "Closed"}, (0, 0, None)),
        (
            {"capability": {"deviceclass/gpu.nvidia.com": "8", "memory.deviceclass/gpu.nvidia.com": "1Ti"}},
            {"allocated": {"deviceclass/gpu.nvidia.com": "3", "memory.deviceclass/gpu.nvidia.com": "420Gi"}},
            (8, 3, None),
        ),
    ],
)
def test_volcano(spec, status, expected):
    found = volcano.read({"metadata": {"name": "q"}, "spec": spec, "status": status})
    assert (found.quota, found.used, found.pending) == expected


def node(name: str, pool: str, *, ready: str = "True", **spec) -> dict:
    return {
        "metadata": {"name": name, "labels": {"modelplane.ai/pool": pool}},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def inventory(node_name: str, devices: int, *, generation: int | None = 1, count: int = 1, **attributes) -> dict:
    known = {"architecture": {"string": "Hopper"}, **attributes}
    return {
        "metadata": {"name": f"{node_name}-{generation}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": f"gpu-{index}", "attributes": known} for index in range(devices)],
        },
    }


def of_driver(driver: str, item: dict) -> dict:
    return {**item, "spec": {**item["spec"], "driver": driver}}


def claim(node_name: str, *devices: str, replica: str | None = None, **more) -> dict:
    results = [{"driver": DRIVER, "pool": node_name, "device": device, **more} for device in devices]
    labels = {"modelplane.ai/replica": replica} if replica else {}
    return {"metadata": {"labels": labels}, "status": {"allocation": {"devices": {"results": results}}}}


@pytest.mark.parametrize(
    ("nodes", "slices", "claims", "expected"),
    [
        ([node("a", "gpu")], [inventory("a", 8)], [], (1, 8, 0)),
        (
            [node("a", "gpu"), node("b", "gpu")],
            [inventory("a", 8), inventory("b", 4)],
            [claim("b", "gpu-1")],
            (2, 12, 1),
        ),
        ([node("a", "gpu", ready="False")], [inventory("a", 8)], [], None),
        ([node("a", "gpu", unschedulable=True)], [inventory("a", 8)], [], None),
        ([node("a", "")], [inventory("a", 8)], [], None),
        ([node("a", "gpu")], [inventory("a", 8), inventory("a", 6, generation=2)], [], (1, 6, 0)),
        ([node("a", "gpu")], [inventory("a", 8), inventory("a", 6, generation=None)], [], (1, 8, 0)),
        (
            [node("a", "gpu"), node("b", "gpu")],
            [inventory("a", 8), inventory("b", 4, generation=2)],
            [],
            (2, 12, 0),
        ),
        ([node("a", "gpu")], [inventory("a", 8), of_driver("nic", inventory("a", 2, generation=2))], [], (1, 8, 0)),
        ([node("a", "gpu")], [inventory("a", 8, count=2)], [], (1, 0, 0)),
        ([node("a", "gpu")], [inventory("a", 8)], [claim("a", "gpu-0", adminAccess=True)], (1, 8, 0)),
        ([node("a", "gpu")], [inventory("a", 8)], [claim("a", "gpu-0", "gpu-1"), {"status": {}}], (1, 8, 2)),
        ([node("a", "gpu")], [inventory("a", 8)], [claim("a", "gpu-0", replica="chat")], (1, 8, 0)),
        ([node("a", "gpu")], [inventory("a", 8)], [claim("a", "gpu-0", replica="gone")], (1, 8, 1)),
        ([node("a", "gpu")], [inventory("elsewhere", 8)], [], (1, 0, 0)),
        ([node("a", "gpu")], [inventory("a", 8, architecture={"string": "Ada"})], [], (1, 0, 0)),
        ([node("a", "gpu")], [inventory("a", 8, uuid={"string": "x"})], [], (1, 8, 0)),
    ],
)
def test_published_devices(nodes, slices, claims, expected):
    pools = observed_pools(nodes, slices, claims, {"chat"})
    if expected is None:
        assert pools == {}
    else:
        assert (pools["gpu"].nodes, *pools["gpu"].count(DRIVER, HOPPER)) == expected


def test_what_others_hold_by_one_claim_is_known_to_lie_together():
    nodes = [node(name, "gpu") for name in "abc"]
    slices = [inventory(name, 8) for name in "abc"]
    whole = claim("a", *(f"gpu-{index}" for index in range(8)))
    claims = [whole, claim("b", "gpu-0", "gpu-1"), claim("b", "gpu-2"), claim("c", "gpu-0"), claim("c", replica="chat")]
    (found,) = observed_pools(nodes, slices, claims, {"chat"}).values()
    assert found.claims_of_others(DRIVER, HOPPER) == ((8, 1), (2, 1), (1, 2))
    gpu = refined(declared(3, 0), FIXED, {"gpu": found}, None, NOON).devices[0]
    assert [(each.devices, each.claims) for each in gpu.claims_of_others] == [(8, 1), (2, 1), (1, 2)]
    assert gpu.held_by_others == 12


def declared(nodes: int = 4, allocated: int = 8) -> GpuPool:
    gpu = PoolDevice(
        name="h200", claim="DRA", driver=DRIVER, count=8, attributes=HOPPER, allocated=allocated, free=nodes * 8
    )
    fact = PoolDevice(name="nvlink", claim="Synthetic", driver="facts", count=1)
    return GpuPool(name="gpu", nodes=nodes, devices=(gpu, fact))


def seen(nodes: int, devices: int, held: int) -> dict[str, ObservedPool]:
    names = [f"gpu-{index}" for index in range(held)]
    pools = observed_pools([node("a", "gpu")], [inventory("a", devices)], [claim("a", *names)])
    return {"gpu": ObservedPool(nodes, pools["gpu"].devices)}


FIXED = NodePool(name="gpu", class_name="c", node_count=4)
SCALES = NodePool(name="gpu", class_name="c", node_count=1, max_node_count=4)


@pytest.mark.parametrize(
    ("pool", "observed", "expected"),
    [
        pytest.param(FIXED, seen(3, 24, 10), (3, 3, 8, 10, 0, 6), id="others hold ten beside our eight"),
        pytest.param(FIXED, seen(9, 99, 0), (4, 9, 8, 0, 0, 24), id="more than was declared"),
        pytest.param(FIXED, seen(9, 40, 0), (4, 9, 8, 0, 0, 24), id="more nodes, and enough devices"),
        pytest.param(FIXED, seen(4, 30, 0), (4, 4, 8, 0, 2, 22), id="two are not published"),
        pytest.param(FIXED, {}, (0, 0, 8, 0, 0, 0), id="no node is there"),
        pytest.param(SCALES, seen(1, 8, 8), (4, 1, 8, 8, 0, 16), id="scales"),
        pytest.param(SCALES, seen(1, 6, 0), (4, 1, 8, 0, 2, 22), id="scales, two are not published"),
    ],
)
def test_what_was_declared_counts_as_far_as_it_is_borne_out(pool, observed, expected):
    found = refined(declared(), pool, observed, None, NOON)
    gpu = found.devices[0]
    assert (
        found.nodes, found.observed_nodes, gpu.allocated, gpu.held_by_others, gpu.missing, gpu.free
    ) == expected  # fmt: skip


NOON, LATER = 1767268800.0, 1767268800.0 + 900
SINCE = "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("pool", "nodes", "known", "now", "expected"),
    [
        pytest.param(FIXED, 4, SINCE, NOON, (4, None, None), id="all are there"),
        pytest.param(FIXED, 3, None, NOON, (3, SINCE, None), id="one goes"),
        pytest.param(FIXED, 2, SINCE, LATER, (2, SINCE, None), id="the moment stays"),
        pytest.param(FIXED, 3, None, 0.0, (3, None, None), id="nobody says what time it is"),
        pytest.param(SCALES, 1, SINCE, LATER, (4, None, None), id="scales, and has what its replica needs"),
        pytest.param(SCALES, 0, None, NOON, (4, SINCE, 900.0), id="scales, and may still"),
        pytest.param(SCALES, 0, SINCE, LATER, (0, SINCE, None), id="its provider has none"),
    ],
)
def test_a_pool_says_since_when_it_is_short_of_nodes(pool, nodes, known, now, expected):
    before = GpuPool(name="gpu", nodes=4, short_since=known)
    found = refined(declared(), pool, seen(nodes, 8 * nodes, 0), before, now)
    assert (found.nodes, found.short_since, requeue_after_s((found,), (pool,), now)) == expected


def test_a_pool_that_scales_needs_nodes_for_what_others_hold_too():
    found = refined(declared(), SCALES, seen(1, 8, 8), GpuPool(name="gpu", nodes=4, short_since=SINCE), LATER)
    assert (found.nodes, found.observed_nodes, found.short_since) == (1, 1, SINCE)


def test_a_pool_that_scaled_down_because_nobody_needs_it_is_not_short():
    found = refined(declared(allocated=0), SCALES, seen(0, 0, 0), GpuPool(name="gpu", nodes=4), LATER)
    assert (found.nodes, found.observed_nodes, found.short_since) == (4, 0, None)


def test_while_nothing_was_read_what_was_known_stays():
    (gpu, fact) = declared().devices
    taken = msgspec.structs.replace(gpu, held_by_others=3, missing=1)
    known = GpuPool(name="gpu", nodes=4, observed_nodes=3, short_since=SINCE, devices=(taken,))
    found = refined(declared(), FIXED, None, known, LATER)
    assert (found.nodes, found.observed_nodes, found.short_since, found.devices) == (4, 3, SINCE, (taken, fact))
    assert refined(declared(), FIXED, None, None, NOON) == declared()


@given(nodes=st.integers(0, 6), devices=st.integers(0, 48), held=st.integers(0, 60), ours=st.integers(0, 48))
def test_what_is_observed_never_adds_to_what_was_declared(nodes, devices, held, ours):
    found = refined(declared(allocated=ours), FIXED, seen(nodes, devices, held), None, NOON)
    gpu = found.devices[0]
    assert found.nodes <= 4
    assert gpu.allocated == ours
    assert gpu.free == max(found.nodes * 8 - ours - gpu.held_by_others - gpu.missing, 0)
    assert 0 <= gpu.held_by_others <= min(held, devices)


@pytest.mark.parametrize(
    ("claims", "held", "others"),
    [
        pytest.param((claim("a", "gpu-0", "gpu-1", replica="chat"),), {"chat": 2}, 1, id="ours is in the books"),
        pytest.param((), {"chat": 2}, 3, id="ours did not start: all in the books is others'"),
        pytest.param((claim("a", "gpu-0", "gpu-1"),), {}, 3, id="none of ours"),
        pytest.param(None, {"chat": 2}, 1, id="claims cannot be read: ours are taken to be in the books"),
        pytest.param(None, {"chat": 9}, 0, id="never less than nothing"),
    ],
)
def test_of_what_a_queue_uses_replicas_account_for_what_their_pods_were_given(claims, held, others):
    items = (kai_queue({"quota": 8}, "3"), {**kai_queue({"quota": 8}, "5"), "metadata": {"name": "z"}})
    required = {"observed-queues": items, **({"observed-claims": claims} if claims is not None else {})}
    made = cluster("KAI", scheduling={"queue": "q"})
    found = {
        queue.name: queue
        for queue in capacity.queues_of(ComposeRequest(made, required=required), held_by("team", held))
    }
    assert (found["q"].used, found["q"].used_by_others, found["z"].used_by_others) == (3, others, None)


@pytest.mark.parametrize(
    ("allocated", "expected"),
    [
        pytest.param({"cpu": "4"}, (0, 0), id="books without claims, and nobody else"),
        pytest.param({"nvidia.com/gpu": "3"}, (3, 3), id="books without claims: all is others'"),
        pytest.param({"deviceclass/gpu.nvidia.com": "2"}, (2, 0), id="ours was claimed"),
        pytest.param({"deviceclass/gpu.nvidia.com": "5", "nvidia.com/gpu": "1"}, (6, 4), id="others claim and name"),
    ],
)
def test_in_volcanos_books_only_claimed_devices_can_be_ours(allocated, expected):
    queue = {"metadata": {"name": "z"}, "spec": {}, "status": {"allocated": allocated}}
    claims = (claim("a", "gpu-0", "gpu-1", replica="chat"),)
    required = {"observed-queues": (queue,), "observed-claims": claims}
    (found,) = capacity.queues_of(ComposeRequest(cluster("Volcano"), required=required), held_by("team", {"chat": 2}))
    assert (found.used, found.used_by_others) == expected


def held_by(namespace: str, devices: dict[str, int]) -> dict[str, capacity.ReplicaDevices]:
    return {name: capacity.ReplicaDevices(namespace, count) for name, count in devices.items()}


def test_a_queue_that_depends_on_more_than_the_namespace_is_nobodys():
    made = cluster("KAI", scheduling={"queue": "{{ .Namespace }}-{{ .Pool }}"})
    items = ({**kai_queue({"quota": 8}, "4"), "metadata": {"name": "a-gpus"}},)
    found = capacity.queues_of(ComposeRequest(made, required={"observed-queues": items}), held_by("a", {"chat": 3}))
    assert [(queue.name, queue.used, queue.used_by_others) for queue in found] == [("a-gpus", 4, None)]


def test_a_device_is_of_a_driver_and_of_the_attributes_that_it_states():
    found = PublishedDevice(DeviceId(DRIVER, "p", "gpu-0"), {"architecture": {"string": "Hopper"}})
    hopper, ampere = HOPPER, {"architecture": Attribute(string="Ampere")}
    asked = [(DRIVER, hopper), (DRIVER, ampere), (DRIVER, {"memory": Attribute(int_=1)}), ("other", hopper)]
    assert [found.is_of(driver, attributes) for driver, attributes in asked] == [True, False, True, False]


PASSED_THROUGH = {"type": "None", "queue": None, "defaultLabels": {"runai/queue": "{{ .Namespace }}"}}


@pytest.mark.parametrize(
    "scheduling",
    [
        {"queue": "{{ .Namespace }}"},
        {"queue": None, "defaultLabels": {"kai.scheduler/queue": "{{ .Namespace }}"}},
        PASSED_THROUGH,
    ],
    ids=["stated", "by label", "by label and without a type"],
)
def test_a_queue_of_a_namespace_counts_the_replicas_of_that_namespace(scheduling):
    made = cluster("KAI", scheduling=scheduling)
    assert "observed-queues" in capacity.requirements(made)
    items = tuple({**kai_queue({"quota": 8}, "4"), "metadata": {"name": name}} for name in ("b", "a", "idle"))
    held = {**held_by("a", {"chat": 3}), **held_by("b", {"code": 1})}
    found = capacity.queues_of(ComposeRequest(made, required={"observed-queues": items}), held)
    assert [(queue.name, queue.used, queue.used_by_others) for queue in found] == [
        ("a", 4, 1),
        ("b", 4, 3),
        ("idle", 4, None),
    ]


def cluster(scheduler: str, *, scheduling: dict | None = None, **status) -> InferenceCluster:
    fields = {"type": scheduler, "queue": "z", **(scheduling or {})}
    stated = {name: value for name, value in fields.items() if value is not None}
    spec = {"cluster": {"source": "Existing"}, "scheduling": stated}
    return decode(InferenceCluster, {"metadata": {"name": "east"}, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("scheduler", "queues"),
    [
        ("None", {}),
        ("KAI", {"observed-queues": ("scheduling.run.ai/v2", "Queue")}),
        (
            "Kueue",
            {
                "observed-queues": ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
                "observed-local-queues": ("kueue.x-k8s.io/v1beta2", "LocalQueue"),
            },
        ),
        ("Volcano", {"observed-queues": ("scheduling.volcano.sh/v1beta1", "Queue")}),
    ],
)
def test_everything_is_asked_of_the_cluster_itself(scheduler, queues):
    api = "resource.k8s.io/v1"
    always = {
        "observed-nodes": ("v1", "Node"),
        "observed-slices": (api, "ResourceSlice"),
        "observed-claims": (api, "ResourceClaim"),
    }
    expected = {key: Requirement(*kind, cluster="east") for key, kind in {**always, **queues}.items()}
    assert capacity.requirements(cluster(scheduler)) == expected


@pytest.mark.parametrize(
    ("version", "api"), [("0.14.3", "v1beta1"), ("0.15", "v1beta2"), (None, "v1beta2"), ("newest", "v1beta2")]
)
def test_kueue_is_read_in_the_version_that_it_is_written_in(version, api):
    wanted = capacity.requirements(cluster("Kueue", scheduling={"version": version} if version else {}))
    found = {wanted[key].api_version for key in ("observed-queues", "observed-local-queues")}
    assert found == {f"kueue.x-k8s.io/{api}"}


def test_queues_that_cannot_be_read_stay_as_known_and_ours_comes_first():
    unread = ComposeRequest(cluster("KAI", queues=[{"name": "old"}]))
    assert [queue.name for queue in capacity.queues_of(unread)] == ["old"]
    items = tuple({"metadata": {"name": name}} for name in ("b", "z", "a"))
    read = ComposeRequest(cluster("KAI"), required={"observed-queues": items})
    assert [queue.name for queue in capacity.queues_of(read)] == ["z", "a", "b"]
    assert capacity.queues_of(ComposeRequest(cluster("None", queues=[{"name": "old"}]))) == ()


def test_half_an_observation_is_none():
    request = ComposeRequest(cluster("None"), required={"observed-nodes": (), "observed-slices": ()})
    assert capacity.pools_of(request) is None


def test_where_pods_are():
    gpus = PoolDevice(name="gpu", driver=DRIVER, count=8, attributes=HOPPER)
    nodes = [node("a", "p"), node("b", "p"), node("c", "p"), node("d", "p")]
    slices = [inventory(found["metadata"]["name"], 8) for found in nodes]
    claims = [
        claim("a", "gpu-0", replica="chat"),
        claim("a", "gpu-1", "gpu-2", replica="chat"),
        claim("a", "gpu-3", replica="chat"),
        claim("b", *(f"gpu-{index}" for index in range(8)), replica="chat"),
        claim("c", "gpu-0", replica="unread"),
        claim("c", "gpu-1", "gpu-2"),
        claim("c", "gpu-3"),
        claim("d", "gpu-0", adminAccess=True),
    ]
    across = claim("c", "gpu-5", replica="chat")
    across["status"]["allocation"]["devices"]["results"] += claim("d", "gpu-5")["status"]["allocation"]["devices"][
        "results"
    ]
    seen = observed_pools(nodes, slices, [*claims, across], {"chat", "unread"})
    fact = PoolDevice(name="nvlink", claim="Synthetic", driver="facts", count=1)
    pools = [GpuPool(name="p", nodes=4, devices=(gpus, fact))]
    assert bound_pods(pools, seen, {"chat": "r-chat"}) == (
        BoundPod(pool="p", node="a", replica="r-chat", devices=1, pods=2),
        BoundPod(pool="p", node="a", replica="r-chat", devices=2),
        BoundPod(pool="p", node="c", device="gpu", devices=1),
        BoundPod(pool="p", node="c", device="gpu", devices=2),
    )


@pytest.mark.parametrize(("pods", "told"), [(1024, 1024), (1025, 0)])
def test_too_many_pods_for_a_status_are_not_told(pods, told):
    gpus = PoolDevice(name="gpu", driver=DRIVER, count=8, attributes=HOPPER)
    names = [f"n{at}" for at in range(pods)]
    claims = [claim(name, "gpu-0", replica="chat") for name in names]
    seen = observed_pools([node(name, "p") for name in names], [inventory(name, 8) for name in names], claims, {"chat"})
    assert len(bound_pods([GpuPool(name="p", nodes=len(names), devices=(gpus,))], seen, {"chat": "r"})) == told


def test_a_device_that_others_share_counts_as_theirs():
    shares = [claim("a", "gpu-0"), claim("a", "gpu-0", replica="chat"), claim("a", "gpu-1", replica="chat")]
    for claims in (shares, shares[::-1]):
        pool = observed_pools([node("a", "gpu")], [inventory("a", 8)], claims, {"chat"})["gpu"]
        assert pool.count(DRIVER, {}) == (8, 1)


def partition(name: str, gpu: int, profile: str) -> dict:
    consumed = [{"counterSet": f"gpu-{gpu}", "counters": {"slices": {"value": "1"}}}]
    return {"name": name, "attributes": {"profile": {"string": profile}}, "consumesCounters": consumed}


@pytest.mark.parametrize(
    ("held", "whole", "declared_part"),
    [
        ((), 0, 0),
        (("one-0",), 0, 1),
        (("two-0",), 1, 0),  # of no declared kind: its GPU counts as held
        (("two-0", "two-1", "two-2"), 2, 0),
        (("two-0", "whole-1"), 2, 0),
    ],
)
def test_partitions_that_the_class_does_not_declare_hold_their_gpu(held, whole, declared_part):
    published = inventory("a", 0)
    published["spec"]["devices"] = [
        *(partition(f"whole-{at}", at, "7g") for at in range(2)),
        partition("one-0", 0, "1g"),
        *(partition(f"two-{at}", at // 2, "2g") for at in range(3)),
    ]
    consumes = [{"counterSet": "gpu", "counters": {"slices": {"value": "1"}}}]
    kinds = [{"name": "whole", "count": 2, "profile": "7g"}, {"name": "one", "count": 14, "profile": "1g"}]
    pool = decode(
        GpuPool,
        {
            "name": "gpu",
            "nodes": 1,
            "devices": [
                {
                    "name": kind["name"],
                    "driver": DRIVER,
                    "count": kind["count"],
                    "attributes": {"profile": {"string": kind["profile"]}},
                    "consumesCounters": consumes,
                }
                for kind in kinds
            ],
        },
    )
    found = observed_pools([node("a", "gpu")], [published], [claim("a", *held)])
    made = refined(pool, NodePool(name="gpu", class_name="x", node_count=1), found, None, NOON)
    assert [device.held_by_others for device in made.devices] == [whole, declared_part]


@pytest.mark.parametrize("status", [{}, {"allocated": 7}])
def test_nothing_is_claimed_where_volcano_books_nothing(status):
    assert volcano.claimed({"status": status}) == 0
