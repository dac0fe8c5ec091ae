"""Explanations: why the rest waits, judged with all deployments, and every stated number recomputed independently."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.views.explain import explain
from modelplane.views.inputs import gather
from modelplane.views.plan import plan

API = "modelplane.ai/v1alpha1"
DRIVER = "gpu.nvidia.com"


def make_class(devices=8):
    gpu = {"name": "gpu", "driver": DRIVER, "deviceClassName": DRIVER, "count": devices}
    memory = {"capacity": {"memory": {"value": "141Gi"}}}
    return {
        "apiVersion": API,
        "kind": "InferenceClass",
        "metadata": {"name": f"c{devices}"},
        "spec": {"devices": [{**gpu, **memory}]},
    }


def make_cluster(name, nodes=2, devices=8, *, packing="Any", quota=None):
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
        "nodePools": [{"name": "gpus", "className": f"c{devices}", "nodeCount": nodes}],
        "scheduling": {"packing": packing},
    }
    if quota is not None:
        spec["quotas"] = [{"namespace": "team", "devices": quota}]
    return {"apiVersion": API, "kind": "InferenceCluster", "metadata": {"name": name}, "spec": spec}


def make_deployment(name, replicas=1, count=8, **spec):
    template = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
    cel = f'device.driver == "{DRIVER}"'
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {
            "replicas": replicas,
            "nodeSelector": {"devices": [{"name": "gpu", "count": count, "selectors": [{"cel": cel}]}]},
            "workers": {"template": template},
            **spec,
        },
    }


EAST = [make_class(), make_cluster("east")]


def test_the_rest_waits_for_a_reason_also_where_a_place_was_chosen():
    found = explain(gather([*EAST, make_deployment("chat", 5)]), "chat")
    full = "Capacity: needs 1 free node; 0 of 2 nodes are free"
    assert found.summary == (f"2 of 5 replicas are placed; 3 wait: {full}; 0 places could take one more, 1 refuses it")
    assert [(c.verdict, c.reason) for c in found.candidates] == [
        ("Chosen", f"holds 2 replicas; one more is refused: {full}")
    ]


def test_a_quota_on_the_chosen_cluster_is_told():
    made = [make_class(), make_cluster("east", 4, quota=16), make_deployment("chat", 3)]
    found = explain(gather(made), "chat")
    said = "Quota: needs 8 devices; namespace team has 0 of 16 left in its quota"
    assert found.candidates[0].reason == f"holds 2 replicas; one more is refused: {said}"
    assert f"1 wait: {said}" in found.summary


def test_a_deployment_is_judged_with_the_others_as_a_plan_does():
    made = gather([*EAST, make_deployment("a", 1), make_deployment("b", 3)])
    found = explain(made, "b")
    planned = plan(made).deployments[1]
    assert (found.answer, found.pending, found.rows) == (planned.answer, 2, planned.rows)
    assert found.summary.startswith("1 of 3 replicas are placed; 2 wait: ")


def test_places_that_hold_a_replica_and_could_take_more_are_counted():
    found = explain(gather([*EAST, make_deployment("chat", 1, 4)]), "chat")
    assert found.summary == "1 of 1 replicas are placed; 1 place could take one more, 0 refuse it"


def test_a_replica_of_several_engines_takes_a_cluster():
    asked = make_deployment("chat")
    spec = asked["spec"]
    phase = {"nodeSelector": spec.pop("nodeSelector"), "workers": spec.pop("workers")}
    spec |= {"decode": phase, "prefill": phase}
    made = [make_class(), make_cluster("east", 4), make_cluster("west", 1)]
    for item in made[1:]:
        item["spec"]["backend"] = {"type": "Native", "images": {"picker": "p", "routingSidecar": "s"}}
    found = explain(gather([*made, asked]), "chat")
    assert found.summary.endswith("; 1 place could take one more, 1 refuses it")
    assert [(c.cluster, c.verdict) for c in found.candidates if c.cluster == "east"] == [("east", "Chosen")]


def test_what_is_evicted_is_told():
    prized = make_cluster("east", 1)
    prized["spec"]["scheduling"]["priorities"] = [{"name": "gold", "value": 9}]
    low = make_deployment("low")
    vip = make_deployment("vip", priority="gold", preemptionPolicy="PreemptLowerPriority")
    found = explain(gather([make_class(), prized, low, vip]), "vip")
    assert found.summary.startswith("1 of 1 replicas are placed; 1 of lower priority is evicted; 0 places")
    robbed = explain(gather([make_class(), prized, low, vip]), "low")
    assert robbed.summary.startswith("0 of 1 replicas are placed; 1 wait: ")


def test_why_replicas_do_not_serve_is_told_in_the_words_of_the_status():
    lost = "1 of 2 lost with cluster east at 2026-11-16T08:24:51Z; replaced at 2026-11-16T08:29:51Z"
    made = {**make_deployment("chat", 2), "status": {"reason": "ClusterLost", "message": lost}}
    assert explain(gather([*EAST, made]), "chat").state == f"ClusterLost: {lost}"
    assert explain(gather([*EAST, make_deployment("chat", 2)]), "chat").state == ""


def test_tier_and_replicas_come_before_the_scores_and_are_told():
    made = [make_class(), make_cluster("east", 4), make_cluster("west", 4)]
    for item in made[1:]:
        item["metadata"]["labels"] = {"region": item["metadata"]["name"]}
    tiers = [{"matchLabels": {"region": name}} for name in ("west", "east")]
    found = explain(gather([*made, make_deployment("chat", 2, placement={"tiers": tiers})]), "chat")
    assert [(c.cluster, c.verdict, c.tier, c.replicas) for c in found.candidates] == [
        ("east", "Eligible", 2, 0),
        ("west", "Chosen", 1, 2),
    ]
    plain = explain(gather([*made, make_deployment("chat", 3)]), "chat")
    assert [(c.cluster, c.tier, c.replicas) for c in plain.candidates] == [("east", None, 2), ("west", None, 1)]


def test_a_cluster_that_is_being_deleted_says_so():
    made = make_cluster("east")
    made["metadata"]["deletionTimestamp"] = "2026-11-16T08:24:51Z"
    found = explain(gather([make_class(), made, make_deployment("chat")]), "chat")
    assert [(c.verdict, c.filter, c.reason) for c in found.candidates] == [
        ("Refused", "ClusterReady", "the cluster is being deleted")
    ]


@pytest.mark.parametrize("state", [{}, {"reason": "AllReady"}])
def test_a_deployment_that_serves_has_no_state_to_tell(state):
    ready = {"type": "Ready", "status": "True", "reason": "Available"}
    made = {**make_deployment("chat", 2), "status": {"conditions": [ready], **state}}
    assert explain(gather([*EAST, made]), "chat").state == ""


# The numbers, by a second and simple way of counting.


def bins_fit(pods, nodes, devices):
    """Whether pods can be packed, by trying every way."""
    return any(
        all(sum(size for size, at in zip(pods, placed, strict=True) if at == node) <= devices for node in range(nodes))
        for placed in product(range(nodes), repeat=len(pods))
    )


def most_packed(held, size, nodes, devices):
    most = 0
    while bins_fit([*held, *[size] * (most + 1)], nodes, devices):
        most += 1
    return most


@st.composite
def fleets(draw):
    devices = draw(st.sampled_from([2, 4]))
    names = ["a", "b"][: draw(st.integers(1, 2))]
    clusters = {
        name: {
            "nodes": draw(st.integers(1, 3)),
            "packing": draw(st.sampled_from(["Any", "BinPack"])),
            "quota": draw(st.none() | st.integers(0, 8)),
        }
        for name in names
    }
    asked = [(draw(st.integers(0, 4)), draw(st.integers(1, devices + 1))) for _ in range(2)]
    return devices, clusters, asked


SUMMARY = re.compile(r"^(\d+) of (\d+) replicas are placed.*; (\d+) places? could take one more, (\d+) refuses? it$")
NODES = re.compile(r"needs 1 free node; (\d+) of (\d+) nodes (?:is|are) free( wherever)?")
NONE_FREE = re.compile(r"0 of (\d+) nodes have (\d+) free GPUs?; (\d+) of (\d+) GPUs are held")
SLOTS = re.compile(r"needs 1 pod with (\d+) GPUs? each; (\d+) (can be packed|fit wherever.*?); (\d+) of (\d+) GPUs")
QUOTA = re.compile(r"needs (\d+) devices; namespace team has (\d+) of (\d+) left in its quota")
DEVICES = re.compile(r"needs (\d+) x gpu; a node has (\d+) x gpu")


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(fleets())
def test_every_stated_number_is_right(made):
    devices, clusters, asked = made
    counts = {f"d{at}": count for at, (_, count) in enumerate(asked)}
    documents = [
        make_class(devices),
        *(
            make_cluster(name, found["nodes"], devices, packing=found["packing"], quota=found["quota"])
            for name, found in clusters.items()
        ),
        *(make_deployment(f"d{at}", replicas, count) for at, (replicas, count) in enumerate(asked)),
    ]
    inputs = gather(documents)
    rows = [row for one in plan(inputs).deployments for row in one.rows if row.action.value == "place"]
    held = {
        name: [counts[row.deployment.removeprefix("team/")] for row in rows if row.cluster == name] for name in clusters
    }
    for at, (replicas, count) in enumerate(asked):
        found = explain(inputs, f"d{at}")
        placed, wanted, more, refused = map(int, SUMMARY.match(found.summary).groups())
        mine = [row for row in rows if row.deployment == f"team/d{at}"]
        assert (placed, wanted, found.pending) == (len(mine), replicas, replicas - len(mine))
        assert more + refused == len(found.candidates) == len(clusters)
        for candidate in found.candidates:
            cluster, pods = clusters[candidate.cluster], held[candidate.cluster]
            check_place(candidate, cluster, pods, count, devices)
            here = sum(row.cluster == candidate.cluster for row in mine)
            assert (candidate.verdict == "Chosen") is (here > 0)
            if here:
                assert candidate.reason.startswith("holds a replica" if here == 1 else f"holds {here} replicas")


def check_place(candidate, cluster, pods, count, devices):
    nodes, is_packed, reason = cluster["nodes"], cluster["packing"] == "BinPack", candidate.reason
    total, used = nodes * devices, sum(pods)
    stated = 0
    if whole := NODES.search(reason):
        stated += 1
        free, of, anywhere = whole.groups()
        best = most_packed(pods, devices, nodes, devices)
        worst = max(nodes - len(pods), 0)
        assert (int(free), int(of)) == (best if is_packed else worst, nodes)
        assert count == devices
        assert int(free) < 1
        assert (anywhere is not None) is (int(free) < best)
    if none := NONE_FREE.search(reason):
        stated += 1
        assert tuple(map(int, none.groups())) == (nodes, count, used, total)
        assert total - used < count
    if slots := SLOTS.search(reason):
        stated += 1
        size, fitting, how, taken, of = slots.groups()
        assert (int(size), int(taken), int(of)) == (count, used, total)
        assert how.startswith("can be") is is_packed
        best = most_packed(pods, count, nodes, devices)
        assert int(fitting) == best if is_packed else int(fitting) <= best
        assert int(fitting) < 1
    if quota := QUOTA.search(reason):
        stated += 1
        assert tuple(map(int, quota.groups())) == (count, max(cluster["quota"] - used, 0), cluster["quota"])
        assert count > cluster["quota"] - used
    if few := DEVICES.search(reason):
        stated += 1
        assert tuple(map(int, few.groups())) == (count, devices)
        assert count > devices
    if "packing: BinPack" in reason:
        assert not is_packed
        assert bins_fit([*pods, count], nodes, devices)
    elif stated and not is_packed and not few and not quota:
        assert not bins_fit([*pods, count], nodes, devices)
    refused = candidate.verdict == "Refused" or "one more is refused" in reason
    assert stated == (1 if refused else 0), reason
