"""What the lab's Gateway controller tells Envoy, and that Envoy takes it."""

import copy
import json
import subprocess

import pytest

from lab.envoy_resources import PICKER, Place
from lab.manifests import parse
from lab.routing import Seen, paths, pool_members, tables
from modelplane.envoy.bootstrap import packaged_binary

FLEET = parse("""
kind: HTTPRoute
metadata: {name: chat, namespace: team}
spec:
  parentRefs: [{name: g, namespace: system}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /team/chat}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    backendRefs:
    - kind: Backend
      name: east
      weight: 3
      filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: modelplane-replica, value: a/50%}]}}]
    - {kind: Backend, name: west, weight: 0}
---
kind: Backend
metadata: {name: east, namespace: team}
spec: {endpoints: [{ip: {address: 10.245.255.1, port: 80}}]}
---
kind: Backend
metadata: {name: west, namespace: team}
spec: {endpoints: [{fqdn: {hostname: west.example.org, port: 80}}]}
""")
SITE = parse("""
kind: HTTPRoute
metadata: {name: one, namespace: team}
spec:
  parentRefs: [{name: g, namespace: system}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /}, headers: [{name: modelplane-replica, value: team/one}]}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: one, weight: 1}]
---
kind: HTTPRoute
metadata: {name: two, namespace: team}
spec:
  parentRefs: [{name: g, namespace: system}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /}, headers: [{name: modelplane-replica, value: team/two}]}]
    backendRefs: [{name: two, port: 80, weight: 1}]
---
kind: InferencePool
metadata: {name: one, namespace: team}
spec:
  selector: {matchLabels: {serving: one}}
  targetPorts: [{number: 8000}, {number: 8001}]
  endpointPickerRef: {name: picker, port: {number: 9002}, failureMode: FailOpen}
---
kind: Service
metadata: {name: picker, namespace: team}
spec: {ports: [{name: grpc, port: 9002}]}
---
kind: EndpointSlice
metadata: {name: picker-1, namespace: team, labels: {kubernetes.io/service-name: picker}}
ports: [{name: grpc, port: 9002}]
endpoints: [{addresses: [10.245.0.9], conditions: {ready: true}}]
---
kind: Service
metadata: {name: two, namespace: team}
spec: {ports: [{name: http, port: 80}]}
---
kind: EndpointSlice
metadata: {name: two-1, namespace: team, labels: {kubernetes.io/service-name: two}}
ports: [{name: other, port: 1}, {name: http, port: 8000}]
endpoints:
- {addresses: [10.245.0.3], conditions: {ready: true}}
- {addresses: [10.245.0.4], conditions: {ready: false}}
---
kind: Pod
metadata: {name: a, namespace: team, labels: {serving: one}}
status: {podIP: 10.245.0.1, conditions: [{type: Ready, status: "True"}]}
---
kind: Pod
metadata: {name: b, namespace: team, labels: {serving: one}}
status: {podIP: 10.245.0.2, conditions: [{type: Ready, status: "False"}]}
---
kind: Pod
metadata: {name: c, namespace: other, labels: {serving: one}}
status: {podIP: 10.245.0.5, conditions: [{type: Ready, status: "True"}]}
""")
GATEWAY = parse("""
kind: Gateway
metadata: {name: g, namespace: system}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
""")
KINDS = {
    "gateways": "Gateway",
    "routes": "HTTPRoute",
    "backends": "Backend",
    "services": "Service",
    "slices": "EndpointSlice",
    "pools": "InferencePool",
    "pods": "Pod",
}


def seen(manifests):
    return Seen(**{field: tuple(each for each in manifests if each["kind"] == kind) for field, kind in KINDS.items()})


def made(manifests, folder="."):
    return tables(seen([*GATEWAY, *manifests]), Place("127.0.0.1", source, f"{folder}/access.log"))


def source(table):
    return {"resource_api_version": "V3", "path_config_source": {"path": f"{table}.json"}}


def routes_of(found, table="routes-system-g"):
    return found.routes[table]["virtual_hosts"][0]["routes"]


def hosts_of(cluster):
    found = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    places = [each["endpoint"]["address"]["socket_address"] for each in found]
    return [f"{each['address']}:{each['port_value']}" for each in places]


def test_a_header_that_a_backend_removes_is_removed():
    manifests = copy.deepcopy(FLEET)
    (changed,) = manifests[0]["spec"]["rules"][0]["backendRefs"][0]["filters"]
    changed["requestHeaderModifier"] = {"remove": ["modelplane-replica"]}
    for route in routes_of(made(manifests)):
        (backend,) = route["route"]["weighted_clusters"]["clusters"]
        assert (backend["request_headers_to_add"], backend["request_headers_to_remove"]) == ([], ["modelplane-replica"])


def test_a_fleet_route_leads_to_weighted_backends():
    found = made(FLEET)
    exact, below = routes_of(found)
    assert (exact["match"]["path"], below["match"]["prefix"]) == ("/team/chat", "/team/chat/")
    assert {each["route"]["prefix_rewrite"] for each in (exact, below)} == {"/"}
    (backend,) = exact["route"]["weighted_clusters"]["clusters"]
    assert (backend["name"], backend["weight"]) == ("Backend/team/east", 3)
    (header,) = backend["request_headers_to_add"]
    assert header["header"] == {"key": "modelplane-replica", "value": "a/50%%"}
    assert hosts_of(found.clusters["Backend/team/east"]) == ["10.245.255.1:80"]
    assert found.clusters["Backend/team/west"]["type"] == "STRICT_DNS"


def test_requests_for_a_pool_are_shown_to_its_picker():
    found = made(SITE)
    to_pool, to_service = routes_of(found)
    (pool,) = to_pool["route"]["weighted_clusters"]["clusters"]
    asked = pool["typed_per_filter_config"][PICKER]["overrides"]
    assert asked["grpc_service"]["envoy_grpc"]["cluster_name"] == "picker/team/one"
    assert hosts_of(found.clusters["picker/team/one"]) == ["10.245.0.9:9002"]
    assert hosts_of(found.clusters["InferencePool/team/one"]) == ["10.245.0.1:8000", "10.245.0.1:8001"]
    (service,) = to_service["route"]["weighted_clusters"]["clusters"]
    assert PICKER not in service.get("typed_per_filter_config", {})
    assert hosts_of(found.clusters["Service/team/two/80"]) == ["10.245.0.3:8000"]
    assert not found.problems


@pytest.mark.parametrize(
    ("mode", "allowed", "body"), [("FailOpen", True, "BUFFERED"), ("FailClose", False, "FULL_DUPLEX_STREAMED")]
)
def test_the_failure_mode_is_the_pools(mode, allowed, body):
    text = json.dumps(SITE).replace("FailOpen", mode)
    (pool,) = routes_of(made(json.loads(text)))[0]["route"]["weighted_clusters"]["clusters"]
    asked = pool["typed_per_filter_config"][PICKER]["overrides"]
    assert (asked["failure_mode_allow"], asked["processing_mode"]["request_body_mode"]) == (allowed, body)


@pytest.mark.parametrize(
    ("lost", "problem"),
    [
        ("InferencePool", "InferencePool team/one is not there"),
        ("Service", "the picker of InferencePool team/one is no Service with such a port"),
    ],
)
def test_what_is_not_there_is_a_problem_and_answers_503(lost, problem):
    found = made([each for each in SITE if each["kind"] != lost])
    assert found.problems["team", "one"] == problem
    assert routes_of(found)[0]["direct_response"]["status"] == 503


def test_each_gateway_has_a_table_of_the_routes_that_name_it_and_the_older_one_has_a_port():
    younger = copy.deepcopy(GATEWAY[0])
    younger["metadata"] |= {"name": "h", "creationTimestamp": "2026-01-01T00:00:00Z"}
    younger["spec"]["listeners"].append({"name": "other", "port": 81, "protocol": "HTTP"})
    chat = copy.deepcopy(FLEET[0])
    chat["spec"]["parentRefs"] = [{"name": "h", "namespace": "system"}]
    found = made([younger, *SITE, chat, *FLEET[1:]])
    tables_of = {
        each["name"]: each["filter_chains"][0]["filters"][0]["typed_config"]["rds"] for each in found.listeners
    }
    named = {port: rds["route_config_name"] for port, rds in tables_of.items()}
    assert named == {"port-80": "routes-system-g", "port-81": "routes-system-h"}
    assert tables_of["port-81"]["config_source"] == source("routes-system-h")
    assert {each["match"].get("path", "/") for each in routes_of(found)} == {"/"}
    assert [each["match"].get("path") for each in routes_of(found, "routes-system-h")] == ["/team/chat", None]


def test_a_gateway_that_gets_no_port_has_no_table():
    found = made([{**GATEWAY[0], "metadata": {"name": "h", "namespace": "system"}}])
    assert set(found.routes) == {"routes-system-g"}


def test_a_list_of_replicas_is_matched_by_its_pattern_and_set_for_all_backends_of_a_rule():
    rule = FLEET[0]["spec"]["rules"][0]
    listed = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "r", "value": "a,b"}]}}
    header = {"type": "RegularExpression", "name": "r", "value": "(.*,)?a(,.*)?"}
    changed = copy.deepcopy(FLEET)
    changed[0]["spec"]["rules"] = [{**rule, "filters": [listed], "matches": [{"headers": [header]}]}]
    (route,) = routes_of(made(changed))
    assert route["match"]["headers"] == [{"name": "r", "string_match": {"safe_regex": {"regex": "(.*,)?a(,.*)?"}}}]
    assert [each["header"] for each in route["request_headers_to_add"]] == [{"key": "r", "value": "a,b"}]


def test_only_ready_pods_of_the_pools_own_namespace_belong_to_it():
    (pool,) = (each for each in SITE if each["kind"] == "InferencePool")
    pods = [each for each in SITE if each["kind"] == "Pod"]
    leaving = {**pods[0], "metadata": {**pods[0]["metadata"], "deletionTimestamp": "soon"}}
    assert pool_members(pool, pods) == ["10.245.0.1:8000", "10.245.0.1:8001"]
    assert pool_members(pool, [leaving]) == []


@pytest.mark.parametrize(
    ("prefix", "replacement", "expected"),
    [
        ("", None, [({"prefix": "/"}, None)]),
        ("", "/new", [({"prefix": "/"}, "/new/")]),
        ("/a/b", None, [({"path_separated_prefix": "/a/b"}, None)]),
        ("/a/b", "/new", [({"path_separated_prefix": "/a/b"}, "/new")]),
        ("/a/b", "/", [({"path": "/a/b"}, "/"), ({"prefix": "/a/b/"}, "/")]),
    ],
)
def test_prefixes_match_whole_elements_and_are_rewritten(prefix, replacement, expected):
    assert list(paths(prefix, replacement)) == expected


def _untyped(resource):
    return {key: each for key, each in resource.items() if key != "@type"}


@pytest.mark.parametrize("manifests", [FLEET, SITE], ids=["fleet", "site"])
def test_envoy_takes_it(manifests, tmp_path):
    found = made(manifests, tmp_path)
    for listener in found.listeners:
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        del manager["rds"]
        manager["route_config"] = _untyped(found.routes["routes-system-g"])
    kept = {"listeners": found.listeners, "clusters": found.clusters.values()}
    document = {"static_resources": {name: [_untyped(each) for each in kept[name]] for name in kept}}
    (tmp_path / "bootstrap.json").write_text(json.dumps(document))
    command = [packaged_binary(), "--mode", "validate", "-c", tmp_path / "bootstrap.json", "--log-level", "error"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
