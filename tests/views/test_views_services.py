"""A service as `modelplane service` shows it."""

from modelplane.views.services import EndpointShown, service_lines

SERVICE = {
    "status": {
        "model": "chat/helper",
        "address": "http://192.0.2.1/chat/helper",
        "routes": {"total": 2, "ready": 1},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
        "tiers": [
            {
                "priority": 0,
                "sharePercent": 100,
                "endpoints": [
                    {"name": "a", "group": "main", "cluster": "east", "sharePermille": 666},
                    {"name": "b", "group": "main", "sharePermille": 0, "reason": "Starting", "message": "0 of 1"},
                ],
            },
            {"priority": 1, "sharePercent": 0, "endpoints": [{"name": "c", "group": "hosted", "sharePermille": 1000}]},
        ],
    }
}


def test_shares_and_reasons_of_every_endpoint():
    assert service_lines(SERVICE) == [
        "model     chat/helper",
        "address   http://192.0.2.1/chat/helper",
        "gateways  1 of 2 serve it",
        "ready     True, Available",
        "",
        "TIER  SHARE  ENDPOINT  GROUP   CLUSTER  WHY NOT",
        "0     66.6%  a         main    east",
        "0     0.0%   b         main             Starting: 0 of 1",
        "1     0.0%   c         hosted",
    ]


def test_what_a_router_sees_of_the_endpoints():
    seen = {
        "a": EndpointShown("chat/a", ("chat/helper",), "Ejected", "3 failures in a row", 0, True),
        "b": EndpointShown("chat/b", ("chat/helper",), "Healthy", "", 2, False),
    }
    assert service_lines(SERVICE, seen)[5:] == [
        "TIER  SHARE  ENDPOINT  GROUP   CLUSTER  HEALTH   IN FLIGHT  WHY NOT",
        "0     66.6%  a         main    east     Ejected  0          3 failures in a row",
        "0     0.0%   b         main             Healthy  2          Starting: 0 of 1",
        "1     0.0%   c         hosted           -        -",
    ]


def test_a_service_without_a_status():
    assert service_lines({"metadata": {"name": "chat", "namespace": "team"}}) == [
        "model     -",
        "address   -",
        "gateways  0 of 0 serve it",
        "",
        "no endpoints match; `modelplane trace ms/chat -n team` shows the deployments that it would select",
    ]
