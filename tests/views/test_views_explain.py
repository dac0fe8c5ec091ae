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
        ("Refused", "ClusterReady", "the cluster is being deleted: its objects are deleted")
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


# The same for replicas of several engines and gangs, with priorities that preempt and taints that are tolerated for a
# time. What each replica holds is read from the plan; nothing else of the scheduler is used.

IMAGES = {"type": "Native", "images": {"picker": "p", "routingSidecar": "s"}}
ROLES = ("decode", "prefill")


def make_phase(count, workers, nodes):
    template = {"spec": {"containers": [{"name": "engine", "image": "i", "args": ["--model", "m"]}]}}
    topology = {"tensor": count, "pipeline": nodes} if nodes > 1 else {}
    return {
        "nodeSelector": {
            "devices": [{"name": "gpu", "count": count, "selectors": [{"cel": f'device.driver == "{DRIVER}"'}]}]
        },
        "workers": {"count": workers, "template": template, **({"topology": topology} if topology else {})},
    }


def make_engines(name, phases, replicas, **spec):
    made = make_deployment(name, replicas)
    del made["spec"]["nodeSelector"], made["spec"]["workers"]
    whole = dict(zip(ROLES, phases, strict=False)) if len(phases) > 1 else phases[0]
    return {**made, "spec": {**made["spec"], **whole, **spec}}


@st.composite
def mixed_fleets(draw):
    devices = draw(st.sampled_from([2, 4]))
    clusters = {
        name: {
            "nodes": draw(st.integers(1, 4)),
            "packing": draw(st.sampled_from(["Any", "BinPack"])),
            "quota": draw(st.none() | st.integers(0, 12)),
            "taint": draw(st.sampled_from([None, None, "NoSchedule", "NoExecute"])),
        }
        for name in ["a", "b"][: draw(st.integers(1, 2))]
    }
    phase = st.tuples(st.integers(1, devices), st.integers(1, 2), st.integers(1, 2))
    asked = [
        {
            "replicas": draw(st.integers(0, 3)),
            "phases": draw(st.lists(phase, min_size=1, max_size=2)),
            "priority": draw(st.sampled_from([None, "gold"])),
            "tolerated_s": draw(st.sampled_from([None, 60])),
        }
        for _ in range(2)
    ]
    return devices, clusters, asked


def row_key(row):
    return row.deployment, row.cluster, row.index


def pods_of(asked):
    """The sizes of all pods of a replica: each worker of a phase is so many pods of so many devices."""
    return [count for count, workers, nodes in asked["phases"] for _ in range(workers * nodes)]


TAINT = re.compile(r"taint busy \((\w+)\) is (?:not tolerated|tolerated for (\d+) s only)")
FREE_NODES = re.compile(r"needs (\d+) free nodes?; (\d+) of (\d+) nodes (?:is|are) free")
PODS_EACH = re.compile(
    r"needs (\d+) pods? with (\d+) GPUs? each; (\d+) (?:can be packed|fit wherever.*?); (\d+) of (\d+)"
)
HELD = re.compile(r"(\d+) of (\d+) GPUs are held")
ALONE = re.compile(r"each of the (\d+) engines fits alone")
NO_POOL = re.compile(r"0 of (\d+) pools can take engine (\w+)")


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(mixed_fleets())
def test_every_stated_number_is_right_for_engines_gangs_preemption_and_taints(made):
    devices, clusters, asked = made
    documents = [make_class(devices)]
    for name, found in clusters.items():
        item = make_cluster(name, found["nodes"], devices, packing=found["packing"], quota=found["quota"])
        item["spec"]["backend"] = IMAGES
        item["spec"]["scheduling"]["priorities"] = [{"name": "gold", "value": 9}]
        if found["taint"]:
            item["spec"]["taints"] = [{"key": "busy", "effect": found["taint"]}]
        documents.append(item)
    for at, found in enumerate(asked):
        more = {"priority": "gold", "preemptionPolicy": "PreemptLowerPriority"} if found["priority"] else {}
        if found["tolerated_s"]:
            more["tolerations"] = [{"key": "busy", "operator": "Exists", "tolerationSeconds": found["tolerated_s"]}]
        phases = [make_phase(*phase) for phase in found["phases"]]
        documents.append(make_engines(f"d{at}", phases, found["replicas"], **more))
    inputs = gather(documents)
    rows = [row for one in plan(inputs).deployments for row in one.rows]
    placed = [row for row in rows if row.action.value == "place"]
    evicted = {row_key(row) for row in rows if row.action.value == "evict"}
    held = {name: [] for name in clusters}
    for row in placed:
        if row_key(row) not in evicted:
            held[row.cluster] += pods_of(asked[int(row.deployment.removeprefix("team/d"))])
    for at, wanted in enumerate(asked):
        found = explain(inputs, f"d{at}")
        left = [row for row in placed if row.deployment == f"team/d{at}" and row_key(row) not in evicted]
        stated = re.match(
            r"(\d+) of (\d+) replicas are placed(?:; (\d+) of lower priority (?:is|are) evicted)?", found.summary
        )
        victims = [row for row in rows if row.action.value == "evict" and row.deployment != f"team/d{at}"]
        assert (int(stated[1]), int(stated[2])) == (len(left), wanted["replicas"]), found.summary
        assert int(stated[3] or 0) == (len(victims) if wanted["priority"] else 0), found.summary
        for candidate in found.candidates:
            check_mixed(candidate, clusters[candidate.cluster], held[candidate.cluster], wanted, devices)
        assert {row.cluster for row in left} == {c.cluster for c in found.candidates if c.verdict == "Chosen"}
        assert {c.cluster for c in found.candidates} == set(clusters)


def check_mixed(candidate, cluster, pods, wanted, devices):
    nodes, reason, mine = cluster["nodes"], candidate.reason, pods_of(wanted)
    used, total = sum(pods), nodes * devices
    counts = {phase[0] for phase in wanted["phases"]}
    assert not candidate.reason.startswith("Spread")
    if taint := TAINT.search(reason):
        assert taint.group(1) == cluster["taint"]
        assert taint.group(2) == (str(wanted["tolerated_s"]) if wanted["tolerated_s"] else None)
    if quota := QUOTA.search(reason):
        assert tuple(map(int, quota.groups())) == (sum(mine), max(cluster["quota"] - used, 0), cluster["quota"])
        assert sum(mine) > cluster["quota"] - used
    if free := FREE_NODES.search(reason):
        need, have, of = map(int, free.groups())
        assert (of, have < need) == (nodes, True)
        assert need in {workers * pods for count, workers, pods in wanted["phases"] if count == devices}
        assert have <= nodes - -(-used // devices)
        if cluster["packing"] == "Any":
            assert have == max(nodes - len(pods), 0)
    if each := PODS_EACH.search(reason):
        need, size, fitting, taken, of = map(int, each.groups())
        assert (taken, of, fitting < need) == (used, total, True)
        assert size in counts
        assert used + size * fitting <= total
    if some := HELD.search(reason):
        assert tuple(map(int, some.groups())) == (used, total)
    if few := DEVICES.search(reason):
        assert int(few.group(1)) > int(few.group(2)) == devices
    if alone := ALONE.search(reason):
        assert int(alone.group(1)) == len(wanted["phases"]) > 1
    if none := NO_POOL.search(reason):
        assert int(none.group(1)) == 1
        assert none.group(2) in ROLES
    assert "packing: BinPack" not in reason or cluster["packing"] == "Any"
    numbers = re.findall(r"\d+", reason)
    known = (TAINT, QUOTA, FREE_NODES, PODS_EACH, HELD, DEVICES, ALONE, NO_POOL)
    refused = candidate.verdict == "Refused" or "one more is refused" in reason
    assert not refused or not numbers or any(pattern.search(reason) for pattern in known), reason


# The same for GPUs that are partitioned: a whole GPU draws all slices, a partition some.

PARTS = re.compile(
    r"needs 1 pod with (\d+) x ([a-z]+); (\d+) (can be packed|fit wherever.*?); (\d+) of (\d+) slices of gpu are held"
)


def make_partitioned(gpus, slices, size):
    def device(name, count, drawn):
        return {
            "name": name,
            "driver": "gpu.nvidia.com",
            "deviceClassName": "gpu.nvidia.com",
            "count": count,
            "attributes": {"type": {"string": name}},
            "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": str(drawn)}}}],
        }

    counters = [{"name": "gpu", "count": gpus, "counters": {"slices": {"value": str(slices)}}}]
    devices = [device("gpu", gpus, slices), device("part", gpus * (slices // size), size)]
    return {**make_class(), "spec": {"sharedCounters": counters, "devices": devices}}


def asks_for(name, replicas, kind):
    made = make_deployment(name, replicas, 1)
    selector = f'device.attributes["gpu.nvidia.com"].type == "{kind}"'
    made["spec"]["nodeSelector"]["devices"] = [{"name": "gpu", "count": 1, "selectors": [{"cel": selector}]}]
    return made


@st.composite
def partitioned_fleets(draw):
    gpus, slices, nodes = draw(st.integers(1, 2)), draw(st.integers(2, 7)), draw(st.integers(1, 2))
    size = draw(st.integers(1, slices))
    asked = [(draw(st.integers(0, 6)), draw(st.sampled_from(["gpu", "part"]))) for _ in range(2)]
    return gpus, slices, size, nodes, asked, draw(st.sampled_from(["Any", "BinPack"]))


@settings(max_examples=40, deadline=None)
@given(partitioned_fleets())
def test_every_stated_number_is_right_for_partitions(made):
    gpus, slices, size, nodes, asked, packing = made
    documents = [
        make_partitioned(gpus, slices, size),
        make_cluster("east", nodes, packing=packing),
        *(asks_for(f"d{at}", replicas, kind) for at, (replicas, kind) in enumerate(asked)),
    ]
    inputs = gather(documents)
    rows = [row for one in plan(inputs).deployments for row in one.rows if row.action.value == "place"]
    draws = {"gpu": slices, "part": size}
    kinds = [asked[int(row.deployment[-1])][1] for row in rows]
    whole, parts = kinds.count("gpu"), kinds.count("part")
    in_gpu = slices // size
    # A GPU is for whole or for partitions, and whatever is placed finds its GPUs.
    assert whole + -(-parts // in_gpu) <= gpus * nodes
    for at, (replicas, kind) in enumerate(asked):
        found = explain(inputs, f"d{at}")
        placed = sum(row.deployment == f"team/d{at}" for row in rows)
        assert found.pending == replicas - placed
        (candidate,) = found.candidates
        stated = PARTS.search(candidate.reason)
        free = gpus * nodes - whole - -(-parts // in_gpu)
        best = free if kind == "gpu" else (gpus * nodes - whole) * in_gpu - parts
        if stated is None:
            assert found.pending == 0
            assert best >= 1
            continue
        count, name, fitting, how, taken, of = stated.groups()
        assert (int(count), name) == (1, kind)
        assert (int(taken), int(of)) == (sum(draws[each] for each in kinds), gpus * slices * nodes)
        assert how.startswith("can be") is (packing == "BinPack")
        assert int(fitting) == 0
        if packing == "BinPack":
            assert best == 0
        elif kind == "gpu":
            # Each partition may be on a GPU of its own.
            assert gpus * nodes - whole - parts <= 0
        assert ("packing: BinPack" in candidate.reason) is (packing == "Any" and best > 0)


# The same for racks: each copy of an engine that spans nodes takes one.

RACKS = re.compile(r"needs (\d+) free domains? of (\d+) nodes \(rack\); (\d+) of (\d+) domains (?:is|are) free")
TOO_LARGE = re.compile(r"needs (\d+) nodes in one domain; a domain \(rack\) has (\d+)")
FOR_GANGS = re.compile(r"its domains of (\d+) nodes \(rack\) are for engines that span nodes")


@st.composite
def racks(draw):
    clusters = [(draw(st.integers(0, 9)), draw(st.integers(2, 3))) for _ in range(draw(st.integers(1, 2)))]
    asked = [(draw(st.integers(0, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 2))) for _ in range(2)]
    return clusters, asked


@settings(max_examples=30, deadline=None)
@given(racks())
def test_every_stated_number_is_right_for_racks(made):
    clusters, asked = made
    documents = [make_class(8)]
    for at, (nodes, size) in enumerate(clusters):
        cluster = make_cluster(f"c{at}", nodes)
        cluster["spec"]["nodePools"][0]["fabric"] = {"domain": {"topologyKey": "rack", "nodeCount": size}}
        documents.append(cluster)
    for at, (replicas, nodes, copies) in enumerate(asked):
        wanted = make_deployment(f"d{at}", replicas, 8)
        wanted["spec"]["workers"] |= {"count": copies, "topology": {"tensor": 8, "pipeline": nodes}}
        documents.append(wanted)
    inputs = gather(documents)
    rows = [row for one in plan(inputs).deployments for row in one.rows if row.action.value == "place"]
    taken = {
        f"c{at}": sum(asked[int(row.deployment[-1])][2] for row in rows if row.cluster == f"c{at}")
        for at in range(len(clusters))
    }
    for at, (replicas, nodes, copies) in enumerate(asked):
        found = explain(inputs, f"d{at}")
        assert found.pending == replicas - sum(row.deployment == f"team/d{at}" for row in rows)
        for candidate in found.candidates:
            pool_nodes, size = clusters[int(candidate.cluster[1:])]
            whole = pool_nodes // size
            free = whole - taken[candidate.cluster]
            assert free >= 0
            if full := RACKS.search(candidate.reason):
                assert tuple(map(int, full.groups())) == (copies, size, free, whole)
                assert free < copies
            elif large := TOO_LARGE.search(candidate.reason):
                assert tuple(map(int, large.groups())) == (nodes, size)
                assert nodes > size
            elif single := FOR_GANGS.search(candidate.reason):
                assert (int(single[1]), nodes) == (size, 1)
            else:
                assert 1 < nodes <= size
                assert free >= copies
