"""What the lab's Gateway controller says of the objects that it serves."""

from lab.envoy_resources import Place
from lab.gateway import _parents_of, _statuses, _undated, gateway_status, route_status
from lab.manifests import parse
from lab.routing import Seen, tables

GATEWAY, ROUTE, POOL = parse("""
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: inference-gateway, namespace: system, generation: 2}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: team, generation: 3}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: inference-gateway, namespace: system}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: pool, weight: 1}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool, namespace: team, generation: 1}
spec:
  selector: {matchLabels: {app: a}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: picker, port: {number: 9002}}
""")
PLACE = Place("10.0.0.1", lambda _: {}, "access.log")


def _told(conditions):
    return {each["type"]: (each["status"], each["reason"]) for each in conditions}


def test_a_gateway_has_an_address_once_envoy_runs_it():
    status = gateway_status(GATEWAY, "10.0.0.1", 1)
    assert status["addresses"] == [{"type": "IPAddress", "value": "10.0.0.1"}]
    assert _told(status["conditions"])["Programmed"] == ("True", "Programmed")
    assert status["listeners"][0]["attachedRoutes"] == 1
    waiting = gateway_status(GATEWAY, "", 1)
    assert waiting["addresses"] == []
    assert _told(waiting["conditions"])["Programmed"] == ("False", "Pending")


def test_status_is_for_the_newest_generation_and_compared_without_times():
    status = route_status(ROUTE, "")
    (parent,) = status["parents"]
    assert {c["observedGeneration"] for c in parent["conditions"]} == {3}
    later = {**parent, "conditions": [{**c, "lastTransitionTime": "later"} for c in parent["conditions"]]}
    assert _undated({"parents": [later]}) == _undated(status)


def test_a_route_that_leads_nowhere_says_so():
    seen = Seen(gateways=(GATEWAY,), routes=(ROUTE,))
    told = {item["kind"]: status for item, status in _statuses(seen, tables(seen, PLACE), "10.0.0.1")}
    (parent,) = told["HTTPRoute"]["parents"]
    assert _told(parent["conditions"])["ResolvedRefs"] == ("False", "BackendNotFound")
    assert told["Gateway"]["listeners"][0]["attachedRoutes"] == 1


def test_pools_are_accepted_by_the_gateways_of_their_routes():
    other = {**ROUTE, "metadata": {"name": "other", "namespace": "elsewhere"}}
    assert _parents_of(POOL, [ROUTE, other]) == ROUTE["spec"]["parentRefs"]
    assert _parents_of(POOL, []) == []
