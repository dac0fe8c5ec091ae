"""Why a pod is not ready, as `modelplane sim show` says it."""

import pytest

from modelplane.sim.commands.inventory import _why

INITIALIZING = {"name": "engine", "state": {"waiting": {"reason": "PodInitializing"}}}
LAST = {"terminated": {"exitCode": 74, "message": "/mnt/models: the volume is empty"}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {
                "containerStatuses": [INITIALIZING],
                "initContainerStatuses": [
                    {"name": "cache-check", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": LAST},
                    {"name": "tune", "state": {"waiting": {"reason": "PodInitializing"}}},
                ],
            },
            "CrashLoopBackOff: /mnt/models: the volume is empty",
        ),
        (
            {
                "containerStatuses": [{"name": "engine", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
                "initContainerStatuses": [{"name": "tune", "state": {"waiting": {"reason": "PodInitializing"}}}],
            },
            "ImagePullBackOff",
        ),
        ({"phase": "Running", "containerStatuses": [{"name": "engine", "state": {}}]}, "its readiness probe fails"),
    ],
    ids=["an init container that fails", "an init container that waits", "an engine that does not answer"],
)
def test_why_a_pod_is_not_ready(status, expected):
    assert _why({"metadata": {"name": "p"}, "status": status}) == expected
