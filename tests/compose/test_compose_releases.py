from modelplane.compose.contract import Helm, Local
from modelplane.compose.releases import chart_of, release_manifest
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
    assert made["spec"]["rollbackLimit"] * 5 >= 60
