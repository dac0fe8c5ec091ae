"""Pods that cannot start in the lab, and what the product makes of them."""

import re

import pytest
import yaml

from lab.stages import CRASHING_IMAGE, LAST_LINE, MISSING_IMAGE, failing_pods
from modelplane.compose.pod_causes import pod_cause

NOW = "2026-01-01T00:00:00Z"
STAGES = {stage["metadata"]["name"]: stage["spec"] for stage in failing_pods()}


def rendered(name):
    """The status that KWOK writes for a pod of one container: the template has one loop and the time."""
    image = MISSING_IMAGE if "image" in name else CRASHING_IMAGE
    text = STAGES[name]["next"]["statusTemplate"]
    for pattern, value in (
        (r"\{\{ range [^}]*\}\}|\{\{ end \}\}", ""),
        (r"\{\{ Now \| Quote \}\}", f'"{NOW}"'),
        (r"\{\{ \.name \| Quote \}\}", '"engine"'),
        (r"\{\{ \.image \| Quote \}\}", f'"{image}"'),
    ):
        text = re.sub(pattern, value, text)
    return yaml.safe_load(text)


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("pod-image-pull-failed", "ImagePullFailed", MISSING_IMAGE),
        ("pod-image-pull-back-off", "ImagePullFailed", MISSING_IMAGE),
        ("pod-crash-looping", "CrashLooping", LAST_LINE),
    ],
)
def test_a_played_pod_has_the_cause_that_a_kubelets_pod_has(name, reason, words):
    cause = pod_cause({"metadata": {"name": "p"}, "status": rendered(name)})
    assert (cause.reason, words in cause.message) == (reason, True)


def test_one_of_the_stages_always_matches_a_pod_that_cannot_pull():
    """Otherwise the stage that makes pods ready would be the only one left."""
    rules = [
        {
            (each["operator"], *each["values"])
            for each in STAGES[name]["selector"]["matchExpressions"]
            if "waiting" in each["key"]
        }
        for name in ("pod-image-pull-failed", "pod-image-pull-back-off")
    ]
    assert rules == [{("NotIn", "ErrImagePull")}, {("In", "ErrImagePull")}]
