"""The plans of the services of a store, as they change."""

from modelplane.api.objects import GROUP, manifest
from modelplane.apiserver.store.database import Database
from modelplane.plane.service_plans import ServicePlans
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock

API = "modelplane.ai/v1alpha1"


def service(name="chat", namespace="team"):
    spec = {"endpoints": [{"selector": {"matchLabels": {"app": "a"}}}]}
    return manifest(API, "ModelService", name, namespace=namespace, spec=spec)


def endpoint(name, ready="True", namespace="team"):
    made = manifest(
        API, "ModelEndpoint", name, namespace=namespace, labels={"app": "a"}, spec={"url": "http://192.0.2.1"}
    )
    conditions = [{"type": "Ready", "status": ready, "reason": "X", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    return {**made, "status": {"conditions": conditions}}


def set_status(store, item):
    metadata = item["metadata"]
    found = store.get(ObjectRef(GROUP, item["kind"], metadata["namespace"], metadata["name"]))
    store.replace_status({**found, "status": item["status"]})


def made(*items):
    store = Database(None, clock=VirtualClock()).store("plane")
    for item in items:
        store.create({key: value for key, value in item.items() if key != "status"})
        if "status" in item:
            set_status(store, item)
    plans = ServicePlans(store)
    calls = []
    plans.on_change = lambda: calls.append(1)
    return store, plans, calls


def serving(plans):
    return {plan.key: [each.name for each in plan.endpoints if each.serves] for plan in plans.current}


def test_plans_follow_services_and_endpoints():
    store, plans, calls = made(service(), endpoint("one"))
    assert serving(plans) == {"team/chat": ["one"]}
    store.create(service("other", "another"))
    assert serving(plans) == {"team/chat": ["one"], "another/other": []}
    set_status(store, endpoint("one", "False"))
    assert serving(plans)["team/chat"] == []
    store.delete(ObjectRef(GROUP, "ModelService", "team", "chat"))
    assert serving(plans) == {"another/other": []}
    assert len(calls) == 3


def test_an_endpoint_that_gets_requests_keeps_them_while_it_does_not_know():
    store, plans, _ = made(service(), endpoint("one"), endpoint("two", "Unknown"))
    assert serving(plans) == {"team/chat": ["one"]}
    set_status(store, endpoint("one", "Unknown"))
    assert serving(plans) == {"team/chat": ["one"]}


def test_what_changes_no_plan_tells_nobody():
    store, plans, calls = made(service(), endpoint("one"))
    before = plans.current
    found = store.get(ObjectRef(GROUP, "ModelService", "team", "chat"))
    store.replace_status({**found, "status": {"model": "team/chat"}})
    assert (calls, plans.current) == ([], before)


def test_a_service_that_cannot_be_read_takes_no_other_with_it():
    _, plans, _ = made(service(), {**service("broken"), "spec": {"endpoints": 7}}, endpoint("one"))
    assert serving(plans) == {"team/chat": ["one"]}


def test_plans_can_be_read_when_they_change():
    store, plans, _ = made(service())
    changes = []
    plans.on_change = lambda: changes.append([each.ready for plan in plans.current for each in plan.endpoints])
    store.create(endpoint("one"))
    set_status(store, endpoint("one", "False"))
    store.create(manifest("v1", "ConfigMap", "x", namespace="team"))
    assert changes == [[True], [False]]
