"""Rendering and the answer for placement are one function."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.context import Context
from modelplane.compose.rendering import can_render, render
from modelplane.testing.placing import placed
from tests.compose.conftest import load_deployment, make_cluster


def context(shape: str, **spec: object) -> Context:
    cluster = make_cluster()
    cluster["spec"] = {**cluster["spec"], **spec}
    return Context(placed(load_deployment(shape), "east"), decode(InferenceCluster, cluster))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({}, None, id="everything is there"),
        pytest.param({"backend": {"routing": "InferencePool"}}, None, id="images of the release"),
        pytest.param({"backend": {"images": {"picker": "p"}}}, None, id="a named picker means pools"),
        pytest.param(
            {"backend": {}},
            "prefill and decode apart need spec.backend.routing: InferencePool, and a gateway that knows such pools",
            id="no pools",
        ),
        pytest.param(
            {"stack": "Dynamo"},
            "spec.stack: Dynamo needs spec.scheduling.type: KAI, which places the gangs of Grove",
            id="stack",
        ),
        pytest.param(
            {"scheduling": {"type": "Auto"}},
            "spec.scheduling.type: it is not known yet which scheduler Auto stands for",
            id="scheduler",
        ),
        pytest.param(
            {"scheduling": {"priorities": [{"name": "gold", "value": 1}], "defaultPriority": "tin"}},
            "priority 'tin' is not among the cluster's: gold",
            id="priority",
        ),
    ],
)
def test_why_a_cluster_cannot_run_a_replica(spec, why):
    assert can_render(context("v03-prefill-decode", **spec)) == why


def test_the_route_comes_last_and_goes_first():
    desired, rendered = render(context("single-gpu"))
    assert list(desired)[-1] == "route"
    assert all(desired[key].outlives == ("route",) for key in rendered.workloads)
