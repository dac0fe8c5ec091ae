"""How even replicas lie over the values of a label."""

import pytest

from modelplane.placement.cycle import SchedulingCycle, TopologyDomain
from modelplane.placement.request import CacheRequest, SpreadRule
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import CacheInfo
from modelplane.testing.fleets import place


@pytest.mark.parametrize(
    ("counts", "values", "value", "expected"),
    [
        pytest.param({}, (), "a", (0, 1.0), id="nothing is placed"),
        pytest.param({"a": 2}, ("a",), "a", (0, 1.0), id="one value is never ahead"),
        pytest.param({"a": 2}, ("a", "b"), "b", (0, 1.0), id="the emptiest"),
        pytest.param({"a": 2}, ("a", "b"), "a", (2, 1 / 3), id="two ahead of an empty one"),
        pytest.param({"a": 3, "b": 2}, ("a", "b"), "a", (1, 0.5), id="one ahead"),
        pytest.param({"a": 1, "b": 2}, ("b",), "c", (0, 1.0), id="a value that is not known"),
    ],
)
def test_a_value_is_ahead_of_the_emptiest(counts, values, value, expected):
    domain = TopologyDomain(SpreadRule("zone"))
    domain.counts.update(counts)
    domain.values.update(values)
    assert (domain.ahead(value), domain.evenness(value)) == expected
    assert domain.evenness(None) == 0.0


class NamesArtifacts:
    def refuse(self, _rendering, artifacts, /):
        return " and ".join(artifacts)


def test_a_cache_that_does_not_exist_is_taken_to_have_weights():
    lora = CacheInfo(namespace="team", name="lora", artifact="Adapter")
    asked = place(caches=(CacheRequest("model"), CacheRequest("lora")), check=NamesArtifacts())
    assert SchedulingCycle(asked, Fleet.of(caches=[lora]), 0.0).cannot_run(b"x") == "Weights and Adapter"
