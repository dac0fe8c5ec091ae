"""How long the steps in a pod's life take."""

import math

import pytest

from modelplane.sim.cluster.pod_timing import backoff_s, drain_s, grace_s, load_s, pull_s, run_s
from modelplane.sim.cluster.settings import ClusterSettings
from modelplane.sim.cluster.sim_settings import SimSettings

SETTINGS = ClusterSettings(pull_s=1, load_s=2, run_s=3, drain_s=4, grace_s=5)


def pod(spec=(), **annotations):
    marks = {f"sim.modelplane.ai/{name}-seconds": value for name, value in annotations.items()}
    return {"metadata": {"annotations": marks}, "spec": {"containers": [{"name": "engine"}], **dict(spec)}}


@pytest.mark.parametrize(
    ("annotations", "sim_settings", "expected"),
    [
        ({}, SimSettings(), (1, 2)),
        ({}, SimSettings(pull_s=10, load_s=0), (10, 0)),
        ({"pull": "7", "load": "8"}, SimSettings(pull_s=10, load_s=20), (7, 8)),
        ({"pull": "soon", "load": "-1"}, SimSettings(), (1, 2)),
    ],
)
def test_the_pods_annotation_decides_over_the_clusters(annotations, sim_settings, expected):
    made = pod(**annotations)
    assert (pull_s(made, SETTINGS, sim_settings), load_s(made, SETTINGS, sim_settings)) == expected


def test_a_pod_without_an_engine_loads_nothing():
    assert load_s({"spec": {"containers": [{"name": "web"}]}}, SETTINGS, SimSettings(load_s=9)) == 0


def test_only_pods_of_jobs_end():
    assert run_s(pod(), SETTINGS) == math.inf
    assert run_s(pod({"restartPolicy": "Never"}), SETTINGS) == 3
    assert run_s(pod({"restartPolicy": "OnFailure"}, run="9"), SETTINGS) == 9


def test_the_end_of_a_pod():
    sleeping = {"name": "engine", "lifecycle": {"preStop": {"sleep": {"seconds": 2}}}}
    assert (drain_s(pod(), SETTINGS), drain_s(pod({"containers": [sleeping]}), SETTINGS)) == (4, 2)
    assert (grace_s(pod(), SETTINGS), grace_s(pod({"terminationGracePeriodSeconds": 60}), SETTINGS)) == (5, 60)


def test_the_back_off_doubles_up_to_its_most():
    assert [backoff_s(failures, SETTINGS) for failures in (0, 1, 2, 3, 5, 6, 7, 5000)] == [
        *(0, 10, 20, 40, 160),
        *(300, 300, 300),
    ]
