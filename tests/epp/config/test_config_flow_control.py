"""Settings from the `flowControl` section, with its defaults."""

import pytest

from modelplane.api.errors import InputError
from modelplane.epp.config.fields import FlowControlFields
from modelplane.epp.config.flow_control import settings_of
from modelplane.epp.flowcontrol.types import TYPES
from modelplane.epp.scheduling.units import convert
from modelplane.framework.registry import Registry


def plugins(*types: str) -> dict[str, object]:
    registry = Registry(TYPES)
    return {name: registry[name].make(name, registry[name].parameters(), None) for name in types}


def section(document: dict[str, object], *types: str):
    return settings_of(convert(document, FlowControlFields), plugins(*types).get)


def test_defaults():
    found = section({})
    band = found.band(3)
    assert (found.max_requests, found.max_bytes, found.ttl_s, found.no_endpoint_ttl_s) == (0, 0, 60.0, 60.0)
    assert (band.max_requests, band.max_bytes, band.fairness.name, band.ordering.name, found.usage.name) == (
        5000,
        1_000_000_000,
        "global-strict-fairness-policy",
        "fcfs-ordering-policy",
        "static-usage-limit-policy",
    )


def test_a_whole_section():
    found = section(
        {
            "maxBytes": "1Gi",
            "maxRequests": 10,
            "defaultRequestTTL": "30s",
            "defaultPriorityBand": {"maxRequests": 7, "orderingPolicyRef": "edf-ordering-policy"},
            "defaultNegativePriorityBand": {"maxRequests": 1},
            "priorityBands": [{"priority": 5, "maxBytes": "2k", "fairnessPolicyRef": "round-robin-fairness-policy"}],
            "usageLimitPolicyPluginRef": "soft-reflective-ceiling-policy",
            "enableEviction": True,
        },
        "edf-ordering-policy",
        "round-robin-fairness-policy",
        "soft-reflective-ceiling-policy",
    )
    assert (found.max_bytes, found.max_requests, found.ttl_s, found.no_endpoint_ttl_s, found.evicts) == (
        2**30,
        10,
        30.0,
        30.0,
        True,
    )
    bands = [found.band(priority) for priority in (0, -3, 5)]
    assert [(band.max_requests, band.max_bytes, band.fairness.name, band.ordering.name) for band in bands] == [
        (7, 1_000_000_000, "global-strict-fairness-policy", "edf-ordering-policy"),
        (1, 1_000_000_000, "global-strict-fairness-policy", "edf-ordering-policy"),
        (7, 2000, "round-robin-fairness-policy", "edf-ordering-policy"),
    ]
    assert found.usage.name == "soft-reflective-ceiling-policy"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"usageLimitPolicyPluginRef": "nobody"}, "no usage limit policy is named nobody"),
        ({"usageLimitPolicyPluginRef": "fcfs-ordering-policy"}, "no usage limit policy is named fcfs-ordering-policy"),
        ({"defaultPriorityBand": {"fairnessPolicyRef": "x"}}, "no fairness policy is named x"),
        ({"priorityBands": [{"orderingPolicyRef": "x"}]}, "no ordering policy is named x"),
    ],
)
def test_what_is_not_there_is_named(document, why):
    with pytest.raises(InputError, match=why):
        section(document, "fcfs-ordering-policy")
