"""The plans of a namespace, from what can be read of it."""

from modelplane.compose.namespace_plans import namespace_plans


def service(name, spec=None, **fields):
    selected = {"endpoints": [{"selector": {"matchLabels": {"app": "a"}}}]}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": selected if spec is None else spec, **fields}


def endpoint(name, ready="True"):
    return {
        "metadata": {"name": name, "namespace": "team", "labels": {"app": "a"}},
        "spec": {"url": "http://192.0.2.9"},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "X"}]},
    }


def shown(plans):
    return [(plan.key, [(each.name, each.ready) for each in plan.endpoints]) for plan in plans]


def test_a_service_that_cannot_be_read_has_no_plan_and_stops_no_other():
    services = [service("broken", spec=7), service("chat"), service("garbled", status=7)]
    assert shown(namespace_plans(services, [endpoint("one")])) == [
        ("team/chat", [("one", True)]),
        ("team/garbled", [("one", True)]),
    ]


def test_an_endpoint_that_gets_requests_stays_while_it_does_not_say_whether_it_is_ready():
    for serving, ready in (((), False), (("one",), True)):
        plans = namespace_plans([service("chat")], [endpoint("one", "Unknown")], serving)
        assert shown(plans) == [("team/chat", [("one", ready)])]
