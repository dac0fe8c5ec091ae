"""Trees of objects, each root with the rows below it."""

import pytest

from modelplane.api.errors import NotFoundError
from modelplane.views.object_tree import TREE_KINDS, ObjectTree, TracedObjects

API = "modelplane.ai/v1alpha1"
THEN, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
POD = {"spec": {"containers": [{"name": "engine", "image": "x"}]}}
ENGINES = [{"name": "main", "members": [{"role": "Standalone", "nodePoolName": "a", "template": POD}]}]
READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": THEN}]}
LOST = {"type": "Ready", "status": "False", "reason": "ClusterLost", "message": "it does not answer"}
LABELS = {"app": "chat"}


def make(kind, name, spec, status=READY, namespace="team", **metadata):
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **metadata},
        "spec": spec,
        "status": status,
    }


def replica(name, where, status=READY, deployment="chat", namespace="team"):
    spec = {"clusterName": where, "deployment": {"name": deployment}, "engines": ENGINES}
    return make("ModelReplica", name, spec, status, namespace)


def endpoint(name, **spec):
    return make("ModelEndpoint", name, {"url": "http://x", **spec}, labels=LABELS)


def placed(name, where):
    return endpoint(name, replica={"name": name, "clusterName": where})


PULLING = {
    "conditions": [{"type": "Ready", "status": "False", "reason": "Creating", "lastTransitionTime": THEN}],
    "reason": "ImagePullFailed",
    "message": "1 of 1 pod: no such image",
    "since": LATER,
}
TIERS = [
    {"priority": 0, "endpoints": [{"name": "chat-b", "reason": "NotReady", "message": "its replica is not ready"}]}
]
SELECTOR = {"selector": {"matchLabels": LABELS}}
OBJECTS = [
    make("ModelDeployment", "chat", {"replicas": 2, "caches": [{"name": "weights"}, {"name": "gone"}]}),
    make("ModelDeployment", "other", {"replicas": 1}),
    replica("chat-a", "east"),
    replica("chat-b", "west", PULLING),
    replica("foreign", "east", deployment="chat", namespace="elsewhere"),
    placed("chat-a", "east"),
    placed("chat-b", "west"),
    endpoint("provider"),
    placed("orphan", "east"),
    make("ModelService", "api", {"endpoints": [SELECTOR]}, {**READY, "tiers": TIERS}),
    make("ModelService", "unrelated", {"endpoints": [{"selector": {"matchLabels": {"app": "x"}}}]}),
    make("ModelCache", "weights", {"source": "HuggingFace"}),
    make("InferenceCluster", "east", {"cluster": {"source": "Existing"}}, namespace=""),
    make(
        "InferenceCluster",
        "west",
        {"cluster": {"source": "Existing"}},
        {"conditions": [{**LOST, "lastTransitionTime": LATER}]},
        namespace="",
    ),
    {"kind": "ConfigMap", "metadata": {"name": "unread"}},
]
WORDS = f"ImagePullFailed: 1 of 1 pod: no such image (since {LATER})"
WAITS = "NotReady: its replica is not ready"


def rows(kind, name, namespace="team"):
    found = TracedObjects.of(OBJECTS).tree(kind, namespace, name)
    return [(title, each.state, each.since, each.why) for title, each in found.rows()]


GOOD = ("Ready", THEN, "")
TREES = {
    ("ModelDeployment", "chat", "team"): [
        ("ModelDeployment/chat", *GOOD),
        ("├─ ModelCache/weights", *GOOD),
        ("├─ ModelCache/gone", "Unknown", "", "it does not exist"),
        ("├─ ModelReplica/chat-a", *GOOD),
        ("│  ├─ InferenceCluster/east", *GOOD),
        ("│  └─ ModelEndpoint/chat-a", *GOOD),
        ("│     └─ ModelService/api", *GOOD),
        ("└─ ModelReplica/chat-b", "NotReady", LATER, WORDS),
        ("   ├─ InferenceCluster/west", "NotReady", LATER, "ClusterLost: it does not answer"),
        ("   └─ ModelEndpoint/chat-b", *GOOD),
        ("      └─ ModelService/api", "Ready", THEN, WAITS),
    ],
    ("ModelDeployment", "other", "team"): [("ModelDeployment/other", *GOOD)],
    ("ModelReplica", "foreign", "elsewhere"): [
        ("ModelReplica/foreign", *GOOD),
        ("└─ InferenceCluster/east", *GOOD),
    ],
    ("ModelEndpoint", "provider", "team"): [("ModelEndpoint/provider", *GOOD), ("└─ ModelService/api", *GOOD)],
    ("ModelService", "unrelated", "team"): [("ModelService/unrelated", *GOOD)],
    ("ModelService", "api", "team"): [
        ("ModelService/api", *GOOD),
        ("├─ ModelEndpoint/chat-a", *GOOD),
        ("│  └─ ModelReplica/chat-a", *GOOD),
        ("│     └─ InferenceCluster/east", *GOOD),
        ("├─ ModelEndpoint/chat-b", "Ready", THEN, WAITS),
        ("│  └─ ModelReplica/chat-b", "NotReady", LATER, WORDS),
        ("│     └─ InferenceCluster/west", "NotReady", LATER, "ClusterLost: it does not answer"),
        ("├─ ModelEndpoint/orphan", *GOOD),
        ("│  └─ ModelReplica/orphan", "Unknown", "", "it does not exist"),
        ("└─ ModelEndpoint/provider", *GOOD),
    ],
    ("ModelCache", "weights", "team"): [
        ("ModelCache/weights", *GOOD),
        ("└─ ModelDeployment/chat", *GOOD),
        ("   ├─ ModelReplica/chat-a", *GOOD),
        ("   │  ├─ InferenceCluster/east", *GOOD),
        ("   │  └─ ModelEndpoint/chat-a", *GOOD),
        ("   │     └─ ModelService/api", *GOOD),
        ("   └─ ModelReplica/chat-b", "NotReady", LATER, WORDS),
        ("      ├─ InferenceCluster/west", "NotReady", LATER, "ClusterLost: it does not answer"),
        ("      └─ ModelEndpoint/chat-b", *GOOD),
        ("         └─ ModelService/api", "Ready", THEN, WAITS),
    ],
    ("InferenceCluster", "east", ""): [
        ("InferenceCluster/east", *GOOD),
        ("├─ ModelReplica/foreign", *GOOD),
        ("└─ ModelReplica/chat-a", *GOOD),
        ("   └─ ModelEndpoint/chat-a", *GOOD),
        ("      └─ ModelService/api", *GOOD),
    ],
}


@pytest.mark.parametrize("root", TREES, ids=lambda root: "/".join(root[:2]))
def test_the_tree_of_each_kind(root):
    assert rows(*root) == TREES[root]


@pytest.mark.parametrize("kind", TREE_KINDS)
def test_a_root_that_does_not_exist_is_refused(kind):
    with pytest.raises(NotFoundError, match=f"^{kind} team/nope does not exist$"):
        rows(kind, "nope")


def test_a_replica_that_is_deleted_says_since_when():
    gone = replica("chat-a", "nowhere", {"reason": "Serving", "since": THEN})
    gone["metadata"]["deletionTimestamp"] = LATER
    cluster = ObjectTree(kind="InferenceCluster", name="nowhere", state="Unknown", why="it does not exist")
    assert TracedObjects.of([gone]).tree("ModelReplica", "team", "chat-a") == ObjectTree(
        kind="ModelReplica", namespace="team", name="chat-a", state="Deleting", since=LATER, children=(cluster,)
    )


BROKEN = {
    "ModelDeployment": {"replicas": "many"},
    "ModelReplica": {"engines": 7},
    "ModelEndpoint": {"url": 7},
    "ModelService": {"aliases": 7},
    "ModelCache": {"source": 7},
    "InferenceCluster": {"nodePools": 7},
}
"""A field of each kind that cannot be read."""


def damaged(kind, name):
    """The objects, of which one cannot be read."""
    return [
        {**item, "spec": {**item["spec"], **BROKEN[kind]}} if (item["kind"], item["metadata"]["name"]) == (kind, name)
        else item
        for item in OBJECTS
    ]  # fmt: skip


def titles(kind, name, root, namespace="team"):
    found = TracedObjects.of(damaged(kind, name)).tree(*root[:1], namespace, root[1])
    return [(title, each.why.partition(":")[0]) for title, each in found.rows()]


UNREAD = "it cannot be read"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("ModelDeployment", "chat"), ("ModelReplica", "chat-a"), ("ModelEndpoint", "chat-a"), ("ModelService", "api"),
     ("ModelCache", "weights"), ("InferenceCluster", "east")],
)  # fmt: skip
def test_a_root_that_cannot_be_read_says_so(kind, name):
    (row,) = titles(kind, name, (kind, name), "" if kind == "InferenceCluster" else "team")
    assert row == (f"{kind}/{name}", UNREAD)


@pytest.mark.parametrize(
    ("kind", "name", "root", "expected"),
    [
        ("ModelReplica", "chat-a", ("ModelDeployment", "chat"), "└─ ModelReplica/chat-a"),
        ("ModelReplica", "chat-a", ("ModelService", "api"), "│  └─ ModelReplica/chat-a"),
        ("ModelCache", "weights", ("ModelDeployment", "chat"), "├─ ModelCache/weights"),
        ("InferenceCluster", "east", ("ModelDeployment", "chat"), "│  ├─ InferenceCluster/east"),
        ("ModelEndpoint", "chat-a", ("ModelReplica", "chat-a"), "└─ ModelEndpoint/chat-a"),
        ("ModelEndpoint", "chat-a", ("ModelService", "api"), "└─ ModelEndpoint/chat-a"),
        ("ModelService", "api", ("ModelEndpoint", "provider"), "└─ ModelService/api"),
        ("ModelDeployment", "chat", ("ModelCache", "weights"), "└─ ModelDeployment/chat"),
    ],
)
def test_what_cannot_be_read_is_a_row_where_it_belongs_and_hides_no_other(kind, name, root, expected):
    found = titles(kind, name, root)
    assert [title for title, why in found if why == UNREAD] == [expected]
    before = TracedObjects.of(OBJECTS).tree(root[0], "team", root[1])
    after = TracedObjects.of(damaged(kind, name)).tree(root[0], "team", root[1])
    assert {each.name for each in after.children} == {each.name for each in before.children}


def test_a_replica_on_a_cluster_that_cannot_be_read_is_shown_there():
    found = TracedObjects.of(damaged("ModelReplica", "chat-a")).tree("InferenceCluster", "", "east")
    assert [(each.name, each.why.partition(":")[0]) for each in found.children] == [("foreign", ""), ("chat-a", UNREAD)]
    assert "spec.engines" in found.children[1].why


def deployed(name, labels, namespace="team"):
    return make("ModelDeployment", name, {"replicas": 1, "labels": labels}, namespace=namespace)


def test_a_service_leads_to_deployments_that_give_it_no_endpoint_yet():
    """By the labels that both have: a region comes with the cluster."""
    wanted = {"matchLabels": {"app": "late", "region": "us"}}
    objects = [
        make("ModelService", "api", {"endpoints": [{"selector": wanted}]}),
        deployed("late", {"app": "late"}),
        replica("late-a", "east", PULLING, deployment="late"),
        deployed("elsewhere", {"app": "late"}, namespace="other"),
        deployed("different", {"app": "x"}),
        deployed("another-region", {"app": "late", "region": "eu"}),
        deployed("unlabelled", {}),
    ]
    found = TracedObjects.of(objects).tree("ModelService", "team", "api")
    assert [title for title, _ in found.rows()] == [
        "ModelService/api",
        "└─ ModelDeployment/late",
        "   └─ ModelReplica/late-a",
        "      └─ InferenceCluster/east",
    ]
    serving = endpoint("late-a", replica={"name": "late-a", "clusterName": "east"})
    serving["metadata"]["labels"] = wanted["matchLabels"]
    found = TracedObjects.of([*objects, serving]).tree("ModelService", "team", "api")
    assert [each.name for each in found.children] == ["late-a"]


def test_a_service_without_endpoints_says_that_its_deployment_is_scaled_to_zero():
    idle = deployed("idle", LABELS)
    idle["spec"]["replicas"] = 0
    found = TracedObjects.of([make("ModelService", "api", {"endpoints": [SELECTOR]}), idle])
    (child,) = found.tree("ModelService", "team", "api").children
    assert (child.name, child.why) == ("idle", "ScaledToZero: spec.replicas is 0")
