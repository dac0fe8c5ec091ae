"""Discovery and OpenAPI documents."""

import json

import pytest

from modelplane.api.definitions import definitions
from modelplane.api.version import __version__
from modelplane.apiserver import discovery, openapi
from modelplane.apiserver.media import wants_aggregated
from modelplane.apiserver.resources import resources

KUBECTL = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
SHORT_NAMES = {
    "inferenceclasses": ["icl"],
    "inferenceclusters": ["ic"],
    "inferencegateways": ["ig"],
    "metricmappings": ["mm"],
    "modelcaches": ["mc"],
    "modeldeployments": ["md"],
    "modelendpoints": ["me"],
    "modelreplicas": ["mr"],
    "modelservices": ["ms"],
    "telemetrydestinations": ["td"],
}


def test_groups_are_listed_with_ours_first():
    assert [group["name"] for group in discovery.group_list()["groups"]] == [
        "infrastructure.modelplane.ai",
        "modelplane.ai",
        "apiextensions.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "events.k8s.io",
        "gateway.envoyproxy.io",
        "gateway.networking.k8s.io",
    ]
    assert discovery.group("modelplane.ai")["preferredVersion"]["groupVersion"] == "modelplane.ai/v1alpha1"
    assert discovery.group("nope.io") is None


def test_kinds_are_listed_with_their_subresources():
    found = {entry["name"]: entry for entry in discovery.resource_list("modelplane.ai", "v1alpha1")["resources"]}
    assert {name: entry["shortNames"] for name, entry in found.items() if "/" not in name} == SHORT_NAMES
    assert found["modeldeployments/scale"] == {
        "name": "modeldeployments/scale",
        "singularName": "",
        "namespaced": True,
        "kind": "Scale",
        "group": "autoscaling",
        "version": "v1",
        "verbs": ["get", "patch", "update"],
    }
    assert "modelservices/scale" not in found
    assert discovery.resource_list("modelplane.ai", "v2") is None


def test_the_aggregated_document_equals_the_lists():
    for core, pairs in ((True, [("", "v1")]), (False, discovery.group_versions())):
        groups = discovery.aggregated(core=core)["items"]
        assert [group["metadata"].get("name", "") for group in groups] == [pair[0] for pair in pairs]
        for group, pair in zip(groups, pairs, strict=True):
            kinds = group["versions"][0]["resources"]
            listed = [
                entry["name"] for entry in discovery.resource_list(*pair)["resources"] if "/" not in entry["name"]
            ]
            assert [kind["resource"] for kind in kinds] == listed


@pytest.mark.parametrize(
    ("accept", "aggregated"),
    [(KUBECTL, True), ("application/json", False), ("", False), (f"application/json,{KUBECTL}", False)],
)
def test_who_gets_the_aggregated_document(accept, aggregated):
    assert wants_aggregated(accept) is aggregated


def test_every_kind_has_a_document_whose_references_lead_somewhere():
    listed = json.loads(openapi.paths())["paths"]
    assert set(listed) == {"api/v1", *(f"apis/{group}/{version}" for group, version in discovery.group_versions())}
    for path in listed:
        document = json.loads(openapi.document(path))
        schemas = document["components"]["schemas"]
        for reference in references(document):
            assert reference.removeprefix("#/components/schemas/") in schemas
    assert openapi.document("apis/nope.io/v1") is None
    assert openapi.document("nope") is None


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_kubectl_finds_schemas_and_what_a_write_takes():
    document = json.loads(openapi.document("apis/modelplane.ai/v1alpha1"))
    path = document["paths"]["/apis/modelplane.ai/v1alpha1/namespaces/{namespace}/modelservices/{name}"]
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {
        each["name"] for each in path["patch"]["parameters"]
    }
    kind = {"group": "modelplane.ai", "version": "v1alpha1", "kind": "ModelService"}
    assert path["patch"]["x-kubernetes-group-version-kind"] == kind
    schema = document["components"]["schemas"]["ai.modelplane.v1alpha1.ModelService"]
    assert schema["x-kubernetes-group-version-kind"] == [kind]
    own = definitions()["modelplane.ai/v1alpha1", "ModelService"].schema["properties"]["spec"]
    assert schema["properties"]["spec"] == own


def test_operations_have_names_of_their_own():
    names = []
    for path in json.loads(openapi.paths())["paths"]:
        for item in json.loads(openapi.document(path))["paths"].values():
            names += [entry["operationId"] for verb, entry in item.items() if verb != "parameters"]
    assert len(names) == len(set(names))
    assert len(names) > 10 * len([each for each in resources().values() if each.custom])


def test_discovery_is_served(over_http):
    async def story(client):
        _, document, headers = await client.answer("GET", "/apis", accept=KUBECTL)
        assert headers["Content-Type"] == discovery.AGGREGATED[0]
        assert document == json.loads(json.dumps(discovery.aggregated(core=False)))
        assert (await client.ask("GET", "/api"))[1]["versions"] == ["v1"]
        assert (await client.ask("GET", "/apis/modelplane.ai"))[1]["kind"] == "APIGroup"
        assert (await client.ask("GET", "/api/v1"))[1]["kind"] == "APIResourceList"
        version = (await client.ask("GET", "/version"))[1]
        assert (version["minor"], version["gitVersion"]) == ("36", f"v1.36.0+modelplane.{__version__}")
        assert "paths" in (await client.ask("GET", "/openapi/v3"))[1]
        assert (await client.ask("GET", "/openapi/v3/api/v1?hash=x"))[1]["openapi"] == "3.0.0"
        assert (await client.ask("GET", "/openapi/v2"))[1]["swagger"] == "2.0"
        binary = await client.answer("GET", "/openapi/v2", accept=f"{openapi.VERSION_2_REQUESTED}, */*")
        assert binary[1] == "\n\x032.0\x12\x10\n\nModelplane\x12\x02v1B\x00J\x00"
        assert binary[2]["Content-Type"] == openapi.VERSION_2_BINARY

    over_http(story)
