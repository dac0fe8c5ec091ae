"""Scenario files: what they say, and what is wrong with them, by field."""

import pytest

from modelplane.api.errors import InputError
from modelplane.testing.world.engine_speed import RequestShape
from modelplane.testing.world.scenario_file import ScenarioFile, read_scenario
from modelplane.testing.world.scenario_steps import ScenarioStep, read_time
from modelplane.testing.world.store import ObjectId
from modelplane.testing.world.traffic import TrafficCurve, TrafficPlan

POINTS = [{"at": 0, "requestsPerSecond": 4}, {"at": "1h30m", "requestsPerSecond": 12.5}]


def test_the_whole_of_it():
    written = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "Scenario",
        "fleet": {"manifests": ["../quickstart"]},
        "duration": "20m",
        "seed": 7,
        "engineStart": 90,
        "steps": ["5m lose region us-east"],
        "traffic": [
            {"service": "team/chat", "curve": POINTS, "promptTokens": 10, "outputTokens": 20, "shedAfter": "5s"},
            {"service": "chat", "requestsPerSecond": 3},
        ],
    }
    assert read_scenario(written) == ScenarioFile(
        manifests=("../quickstart",),
        duration_s=1200.0,
        seed=7,
        engine_start_s=90.0,
        steps=(ScenarioStep(300.0, ("lose", "region", "us-east")),),
        traffic=(
            TrafficPlan(
                ObjectId("ModelService", "team", "chat"),
                TrafficCurve(((0.0, 4.0), (5400.0, 12.5))),
                RequestShape(10, 20),
                5.0,
            ),
            TrafficPlan(
                ObjectId("ModelService", "default", "chat"), TrafficCurve(((0.0, 3.0),)), RequestShape(800, 200), 30.0
            ),
        ),
    )


def test_what_is_left_out_is_not_known():
    assert read_scenario({}) == ScenarioFile()
    assert read_scenario({"fleet": {"kubeconfig": "~/.kube/config"}}) == ScenarioFile(kubeconfig="~/.kube/config")
    assert read_scenario({"fleet": {"data": "plane"}}) == ScenarioFile(data="plane")


def traffic(**fields):
    return {"traffic": [{"service": "chat", **fields}]}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ([], "the document: is not an object with apiVersion, kind, "),
        ({"kind": "ModelService"}, "kind: is 'ModelService', not Scenario"),
        ({"apiVersion": "v1"}, "apiVersion: is 'v1', not modelplane.ai/v1alpha1"),
        ({"step": []}, "step: unknown field; there are apiVersion, kind, "),
        ({"fleet": []}, "fleet: is not an object with manifests, kubeconfig, data"),
        ({"fleet": {"manifests": "a"}}, "fleet.manifests: is not a list"),
        ({"fleet": {"manifests": [1]}}, "fleet.manifests[0]: is not a text"),
        ({"fleet": {"manifests": ["a"], "data": "b"}}, "fleet: has manifests and data; give one of them"),
        ({"fleet": {"data": 5}}, "fleet.data: is not a text"),
        ({"fleet": {"plane": "x"}}, "fleet.plane: unknown field"),
        ({"duration": "soon"}, "duration: is 'soon'; write a time such as 90s, 20m or 1h30m"),
        ({"duration": True}, "duration: is True; write a time"),
        ({"duration": -5}, "duration: is -5; write a time"),
        ({"seed": "x"}, "seed: is 'x', not a whole number from 0 to "),
        ({"seed": 1.5}, "seed: is 1.5, not a whole number"),
        ({"steps": 7}, "steps: is not a list"),
        ({"steps": ["5m double a", "60 hop"]}, "steps[1]: step `hop` is none of: "),
        ({"steps": ["dance"]}, "steps[0]: step 'dance': it begins with its time"),
        ({"traffic": {}}, "traffic: is not a list"),
        ({"traffic": ["chat"]}, "traffic[0]: is not an object with service, "),
        ({"traffic": [{"requestsPerSecond": 1}]}, "traffic[0].service: is missing"),
        (traffic(), "traffic[0]: give either curve or requestsPerSecond"),
        (traffic(curve=POINTS, requestsPerSecond=1), "traffic[0]: give either curve or requestsPerSecond"),
        (traffic(curve=[]), "traffic[0].curve: has no point"),
        (traffic(curve=[{"requestsPerSecond": 1}]), "traffic[0].curve[0].at: is missing"),
        (traffic(curve=[{"at": 0}]), "traffic[0].curve[0].requestsPerSecond: is None, not a number from 0 to "),
        (traffic(curve=[POINTS[1], POINTS[0]]), "traffic[0].curve[1].at: is not after the point before it"),
        (traffic(curve=[{"at": 0, "rps": 1}]), "traffic[0].curve[0].rps: unknown field; there are at, "),
        (traffic(requestsPerSecond=-1), "traffic[0].requestsPerSecond: is -1, not a number from 0 to "),
        (traffic(requestsPerSecond=float("nan")), "traffic[0].requestsPerSecond: is nan, not a number"),
        (traffic(requestsPerSecond=1, promptTokens=0), "traffic[0].promptTokens: is 0, not a whole number from 1 to "),
        (traffic(requestsPerSecond=1, outputTokens=2.5), "traffic[0].outputTokens: is 2.5, not a whole number"),
        (traffic(requestsPerSecond=1, shedAfter="x"), "traffic[0].shedAfter: is 'x'; write a time"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(written, problem):
    with pytest.raises(InputError) as refused:
        read_scenario(written)
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), (90, 90.0), (1.5, 1.5), ("90s", 90.0), ("5m", 300.0), ("1h30m", 5400.0), ("1d", 86400.0),
     ("0", 0.0), ("", None), ("m", None), ("-5", None), ("5 m", None), ("1m1h", None), (None, None), (False, None)],
)  # fmt: skip
def test_times(text, seconds):
    assert read_time(text) == seconds
