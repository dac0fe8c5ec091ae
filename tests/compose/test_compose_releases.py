import pytest

from modelplane.compose.contract import Helm, Local, Observed, Remote
from modelplane.compose.releases import chart_of, problem_of, release_manifest, release_problem
from modelplane.crossplane.packaging import PackageSource, installation


def test_a_release_as_the_provider_takes_it(problems):
    chart = Helm("east", "lws", "oci://example/charts", "0.10.0", "lws-system", {"replicaCount": 1}, "mp-lws")
    made = release_manifest("east-lws", "modelplane-system", chart)
    assert problems(made) == []
    assert made["metadata"] == {
        "name": "east-lws",
        "namespace": "modelplane-system",
        "annotations": {"crossplane.io/external-name": "mp-lws"},
    }
    assert made["spec"]["providerConfigRef"] == {"kind": "ClusterProviderConfig", "name": "east"}
    assert made["spec"]["forProvider"] == {
        "namespace": "lws-system",
        "wait": True,
        "chart": {"repository": "oci://example/charts", "name": "lws", "version": "0.10.0"},
        "values": {"replicaCount": 1},
    }


def test_without_a_name_of_its_own_helm_knows_it_by_the_objects():
    made = release_manifest("east-lws", "s", Helm("east", "lws", "oci://a", "1.0.0", "n"))
    assert made["metadata"]["annotations"] == {"crossplane.io/external-name": "east-lws"}


def test_a_chart_is_known_again_from_its_release():
    chart = Helm("east", "lws", "oci://example/charts", "0.10.0", "lws-system", {"replicaCount": 1}, "mp-lws")
    release = release_manifest("east-lws", "modelplane-system", chart)
    assert chart_of(chart) == chart_of(Local(release)) == chart
    assert chart_of(Local({**release, "kind": "ConfigMap"})) is None


def test_a_chart_that_fails_at_first_is_tried_for_an_hour():
    """A webhook that is not up yet failed a first install three times in a minute, and nothing tried again."""
    made = release_manifest("east-lws", "s", Helm("east", "lws", "oci://a", "1.0.0", "n"))
    (poll,) = [
        each["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in installation(PackageSource("a.example/x", "a.example/y", "1", helm=True))
        if each["kind"] == "DeploymentRuntimeConfig" and each["metadata"]["name"] == "provider-helm"
    ]
    assert poll == ["--poll=5m"]
    assert made["spec"]["rollbackLimit"] * 5 == 60


DEADLINE = "create failed: failed to install release: context deadline exceeded"
REFUSED = "update failed: failed to upgrade release: values don't meet the schema:\n- replicas: Invalid type"
CONFIG = (
    "connect failed: failed to resolve provider config: cannot get provider config: "
    'ClusterProviderConfig.helm.m.crossplane.io "east"'
)
FAILED = {"state": "failed", "releaseDescription": 'Release "mp-lws" failed: context deadline exceeded'}


def synced(message, status="False", **more):
    return {"type": "Synced", "status": status, "message": message, **more}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param(None, "", id="not seen by the provider"),
        pytest.param({"conditions": [synced("", "True")]}, "", id="synced"),
        pytest.param({"conditions": [synced(DEADLINE)]}, "context deadline exceeded", id="an installation"),
        pytest.param(
            {"conditions": [synced(REFUSED)]},
            "values don't meet the schema: - replicas: Invalid type",
            id="a change, on several lines",
        ),
        pytest.param(
            {"conditions": [synced("connect failed: cannot get referenced Secret")]},
            "connect failed: cannot get referenced Secret",
            id="credentials",
        ),
        pytest.param({"conditions": [synced("x" * 400)]}, "x" * 300, id="long"),
        pytest.param({"conditions": [synced(DEADLINE, "Unknown")]}, "", id="unknown"),
        pytest.param({"conditions": [synced(DEADLINE, observedGeneration=1)]}, "", id="of an older generation"),
        pytest.param(
            {"conditions": [synced(DEADLINE, observedGeneration=2)]},
            "context deadline exceeded",
            id="of the newest generation",
        ),
        pytest.param(
            {"conditions": [synced("", "True")], "atProvider": FAILED},
            "context deadline exceeded",
            id="between two attempts",
        ),
        pytest.param(
            {"atProvider": {"state": "pending-install", "releaseDescription": "Initial install underway"}},
            "",
            id="under way",
        ),
        pytest.param({"conditions": [synced(f"{CONFIG} not found")]}, "", id="before its credentials"),
        pytest.param(
            {"conditions": [synced(f"{CONFIG} is forbidden")]},
            f"{CONFIG} is forbidden",
            id="credentials that nobody reads",
        ),
        pytest.param({"conditions": "none", "atProvider": ["failed"]}, "", id="garbled"),
    ],
)
def test_why_a_chart_is_not_released(status, problem):
    release = release_manifest("east-lws", "s", Helm("east", "lws", "oci://a", "1.0.0", "n"))
    release = {**release, "metadata": {**release["metadata"], "generation": 2}, "status": status}
    assert release_problem(release) == problem
    assert problem_of(Observed(Local(release), ready=False)) == problem


def test_why_an_object_is_not_made_is_the_clusters_word():
    quota = {"kind": "EnvoyProxy", "status": {"conditions": [synced(DEADLINE)]}}
    assert problem_of(Observed(Remote("east", quota), ready=False, refused="forbidden")) == "forbidden"
    assert problem_of(Observed(Remote("east", quota), ready=False)) == ""
