"""Ordered tiers of clusters: the first is filled before the next takes anything.

A tier is a selector; a cluster belongs to the first one that matches it. A deployment with tiers goes nowhere else.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from modelplane.api.labels import selects
from modelplane.framework import Refusal, RefusalCode
from modelplane.placement.cycle import SchedulingCycle
from modelplane.placement.filters import label_keys
from modelplane.placement.offers import ClusterView
from modelplane.placement.plugins import FilterStage
from modelplane.placement.request import PlacementRequest


def tier_of(request: PlacementRequest, labels: Mapping[str, str]) -> int | None:
    """The tier of a cluster, 0 where the deployment has none; None for a cluster that is in no tier."""
    if not request.tiers:
        return 0
    return next((at for at, selector in enumerate(request.tiers) if selects(selector, labels)), None)


class TiersFilter:
    name: Final = "Tiers"
    stage: Final = FilterStage.CLUSTER

    def reads(self, state: SchedulingCycle, /) -> Iterator[str]:
        return label_keys(*state.request.tiers)

    def refuse(self, state: SchedulingCycle, view: ClusterView, /) -> Refusal | None:
        if tier_of(state.request, view.sample.labels) is not None:
            return None
        text = "its labels match none of the {} tiers"
        return Refusal(self.name, RefusalCode.UNRESOLVABLE, text, (len(state.request.tiers),))
