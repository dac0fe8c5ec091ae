"""Tables: cells and ages."""

import pytest

from modelplane.apiserver.resources import resources
from modelplane.apiserver.tables import Include, age, column_definitions, duration, rows

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:58:20Z"  # 100 s before NOW
CONDITIONS = {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True", "n": 3}]}


def test_every_column_of_ours_can_be_read():
    for resource in resources().values():
        assert len(rows(resource, [{"metadata": {}}], NOW, Include.NONE)[0]["cells"]) == len(
            column_definitions(resource)
        )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (8 * 3600, "8h"), (47 * 3600, "47h"),
        (48 * 3600, "2d"), (49 * 3600, "2d1h"), (8 * 86400, "8d"), (729 * 86400, "729d"), (730 * 86400, "2y"),
        (731 * 86400, "2y1d"), (8 * 365 * 86400, "8y"),
    ],
)  # fmt: skip
def test_durations_get_coarser(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("stamp", "text"), [("", "<unknown>"), ("x", "<invalid>"), (CREATED, "100s")])
def test_ages(stamp, text):
    assert age(stamp, NOW) == text


def cells(plural, manifest, group="", version="v1"):
    named = {"name": "n", "creationTimestamp": CREATED, **manifest.pop("metadata", {})}
    return rows(resources()[group, version, plural], [{**manifest, "metadata": named}], NOW, Include.NONE)[0]["cells"]


def test_a_column_keeps_types_apart():
    told = {"reason": "ClusterLost", "placement": {"summary": "1 on east, 1 on west"}}
    status = {"replicas": 2, "readyReplicas": "x", **told, **CONDITIONS}
    shown = cells("modeldeployments", {"spec": {"replicas": 3}, "status": status}, "modelplane.ai", "v1alpha1")
    assert shown == ["n", 3, 2, None, "ClusterLost", "1 on east, 1 on west", "True", "100s"]
    shown = cells("inferenceclasses", {"status": {"claimableDevices": 8}}, "modelplane.ai", "v1alpha1")
    assert shown[:2] == ["n", 8]


def test_what_is_being_deleted_shows_it_and_what_holds_it():
    conditions = [
        {"type": "Ready", "status": "False", "reason": "Deleting", "message": "m"},
        {"type": "Deletable", "status": "False", "reason": "InUse", "message": "in use by ModelReplica chat-1"},
    ]
    for plural in ("inferenceclusters", "inferenceclasses", "inferencegateways"):
        shown = cells(plural, {"status": {"conditions": conditions}}, "modelplane.ai", "v1alpha1")
        assert shown[-4:] == ["Deleting", "in use by ModelReplica chat-1", "False", "100s"]


def test_what_crossplane_refuses_to_delete_is_not_called_available():
    """There Ready is Crossplane's own, and stays True."""
    conditions = [
        {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
        {"type": "Ready", "status": "True", "reason": "Available"},
        {"type": "Drained", "status": "Unknown", "reason": "NotDraining"},
        {"type": "Deletable", "status": "False", "reason": "InUse", "message": "being deleted; in use by …"},
    ]
    for plural in ("inferenceclusters", "inferenceclasses", "inferencegateways"):
        shown = cells(plural, {"status": {"conditions": conditions}}, "modelplane.ai", "v1alpha1")
        assert shown[-4:] == ["InUse", "being deleted; in use by …", "True", "100s"]
        shown = cells(plural, {"status": {"conditions": conditions[:-1]}}, "modelplane.ai", "v1alpha1")
        assert shown[-4:] == [None, None, "True", "100s"]
    staged = [{"type": "ArtifactReady", "status": "True", "reason": "Staged"}, *conditions]
    shown = cells("modelcaches", {"status": {"conditions": staged}}, "modelplane.ai", "v1alpha1")
    assert {"InUse", "being deleted; in use by …"} <= set(shown)
    failing = [{"type": "ArtifactReady", "status": "False", "reason": "SourceNotFound"}, *conditions]
    shown = cells("modelcaches", {"status": {"conditions": failing}}, "modelplane.ai", "v1alpha1")
    assert "SourceNotFound" in shown


@pytest.mark.parametrize(
    ("plural", "manifest", "shown"),
    [
        ("configmaps", {"data": {"a": "1"}, "binaryData": {"b": "Yg=="}}, ["n", 2, "100s"]),
        ("secrets", {"data": {"a": "MQ=="}, "type": "Opaque"}, ["n", "Opaque", 1, "100s"]),
        ("namespaces", {"status": {"phase": "Active"}}, ["n", "Active", "100s"]),
        (
            "events",
            {
                "involvedObject": {"kind": "ModelService", "name": "chat"},
                "type": "Normal",
                "reason": "Placed",
                "message": "here",
                "source": {"component": "modelplane"},
                "lastTimestamp": CREATED,
                "count": 4,
            },
            ["100s", "Normal", "Placed", "modelservice/chat", "", "modelplane", "here", "<unknown>", 4, "n"],
        ),
    ],
)
def test_the_columns_of_kubernetes(plural, manifest, shown):
    assert cells(plural, manifest) == shown


@pytest.mark.parametrize(
    ("include", "carried"),
    [
        (Include.NONE, None),
        (Include.OBJECT, {"metadata": {"name": "n"}, "data": {}}),
        (
            Include.METADATA,
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "n"}},
        ),
    ],
)
def test_what_a_row_carries(include, carried):
    manifest = {"metadata": {"name": "n"}, "data": {}}
    assert rows(resources()["", "v1", "configmaps"], [manifest], NOW, include)[0]["object"] == carried
