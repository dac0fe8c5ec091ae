"""The rows of `status`, in every form."""

import argparse
import json

import pytest
import yaml

from modelplane.cli import _formats, status
from modelplane.views.overview import overview

API = "modelplane.ai/v1alpha1"
READY = [{"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


def cluster(name, **spec):
    return {
        "apiVersion": API,
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": {"cluster": {"source": "Existing"}, "nodePools": [], **spec},
        "status": {
            "conditions": READY,
            "nodes": 2,
            "freeDevices": 3,
            "gpuPools": [{"name": "h200", "className": "c", "nodes": 2}],
        },
    }


def replica(name, namespace, ready="True"):
    conditions = [{**READY[0], "status": ready, "reason": "ImagePullFailed", "message": "no such image"}]
    return {
        "apiVersion": API,
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterName": "east", "deployment": {"name": "chat"}, "engines": []},
        "status": {"conditions": conditions},
    }


def shown(*words):
    parser = argparse.ArgumentParser()
    status.configure(parser)
    given = parser.parse_args([*words, "--kubeconfig", "unused"])
    found = overview(
        clusters=[
            cluster("east", cordoned=True, taints=[{"key": "maint", "value": "x", "effect": "NoExecute"}]),
            cluster("west"),
        ],
        deployments=(),
        replicas=[replica("chat-a", "team"), replica("chat-b", "team", "False")],
        services=(),
    )
    return status._text(found, given)


TEXT = """\
CLUSTER  HEALTH                    NODES  FREE  LOST  REPLICAS  WHY
east     Ready,SchedulingDisabled  2      3     0     0
west     Ready                     2      3     0     0

DEPLOYMENT  HEALTH  WANTED  PLACED  SERVING  WHY

REPLICA      HEALTH    CLUSTER  WHY
team/chat-b  NotReady  east     ImagePullFailed: no such image

SERVICE  HEALTH  ENDPOINTS  SERVING  ADDRESS  WHY
"""
WIDE = """\
CLUSTER  HEALTH                    NODES  FREE  LOST  REPLICAS  POOLS  TAINTS             WHY
east     Ready,SchedulingDisabled  2      3     0     0         h200   maint=x:NoExecute
west     Ready                     2      3     0     0         h200   -

DEPLOYMENT  HEALTH  WANTED  PLACED  SERVING  WHY

REPLICA      HEALTH    CLUSTER  WHY
team/chat-a  Ready     east
team/chat-b  NotReady  east     ImagePullFailed: no such image

SERVICE  HEALTH  ENDPOINTS  SERVING  ADDRESS  WHY
"""
NAMES = """\
inferencecluster.modelplane.ai/east
inferencecluster.modelplane.ai/west
modelreplica.modelplane.ai/chat-a
modelreplica.modelplane.ai/chat-b
"""


@pytest.mark.parametrize(("form", "expected"), [("text", TEXT), ("wide", WIDE), ("name", NAMES)])
def test_every_form_of_the_rows(form, expected):
    assert shown("-o", form) == expected


def test_data_is_the_same_in_json_and_yaml():
    found = json.loads(shown("-o", "json"))
    assert found == yaml.safe_load(shown("-o", "yaml"))
    assert found["clusters"][0]["taints"] == ["maint=x:NoExecute"]


def test_colour_is_for_terminals_and_beside_the_word(monkeypatch):
    monkeypatch.setattr(_formats, "_paints", lambda: True)
    line = shown().splitlines()[1]
    assert line.startswith("east     \033[32mReady,SchedulingDisabled\033[0m  2 ")


def test_many_replicas_that_are_not_ready_leave_the_services_on_the_screen():
    broken = [replica(f"chat-{number:03}", "team", "False") for number in range(160)]
    found = overview(clusters=(), deployments=(), replicas=broken, services=())
    short, wide = (status.overview_text(found, wide=wide).splitlines() for wide in (False, True))
    assert sum("ImagePullFailed" in line for line in short) == 20
    assert "and 140 more replicas that are not ready; -o wide shows all" in short
    assert (sum("ImagePullFailed" in line for line in wide), any("more replicas" in line for line in wide)) == (
        160,
        False,
    )
