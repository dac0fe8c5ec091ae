"""Where a request may be served, by its `x-modelplane-residency` header. It fails closed.

    fleet               only on clusters of the fleet, by no provider
    cluster=fra-a       only on this cluster
    region=eu           only by endpoints with this label

Rules are joined by commas, and all must hold. The name of a label may be written without its prefix: `region` finds
`topology.kubernetes.io/region` and `org.example/region`. An endpoint that lacks the label does not satisfy the rule.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec

from modelplane.compose.service_plan import PlanEndpoint

_RULE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]{0,316})=([A-Za-z0-9][A-Za-z0-9._-]{0,62})")
_MOST_RULES: Final = 8
_FLEET: Final = "fleet"
_CLUSTER: Final = "cluster"


class ResidencyError(ValueError):
    """The header cannot be read; the sentence is for the client."""


class Residency(msgspec.Struct, frozen=True):
    """What an endpoint must be."""

    text: str
    fleet_only: bool = False
    cluster: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def allows(self, endpoint: PlanEndpoint) -> bool:
        if (self.fleet_only or self.cluster) and endpoint.cluster is None:
            return False
        if self.cluster and endpoint.cluster != self.cluster:
            return False
        return all(_has(endpoint, key, value) for key, value in self.labels)


@lru_cache(maxsize=256)
def read_residency(text: str) -> Residency | None:
    """None where the header is empty. ResidencyError where it cannot be read."""
    rules = [rule.strip() for rule in text.split(",") if rule.strip()]
    if not rules:
        return None
    if len(rules) > _MOST_RULES:
        raise ResidencyError(f"x-modelplane-residency has {len(rules)} rules; {_MOST_RULES} are accepted")
    pairs = [_pair(rule) for rule in rules if rule != _FLEET]
    clusters = sorted({value for key, value in pairs if key == _CLUSTER})
    if len(clusters) > 1:
        raise ResidencyError("x-modelplane-residency names two clusters")
    labels = tuple((key, value) for key, value in pairs if key != _CLUSTER)
    return Residency(text, _FLEET in rules, clusters[0] if clusters else "", labels)


def _pair(rule: str) -> tuple[str, str]:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ResidencyError(f"x-modelplane-residency: {rule[:80]!r} is neither fleet nor like region=eu")
    return found[1], found[2]


def _has(endpoint: PlanEndpoint, key: str, value: str) -> bool:
    if endpoint.labels.get(key) == value:
        return True
    return "/" not in key and any(
        label.rpartition("/")[2] == key and found == value for label, found in endpoint.labels.items()
    )
