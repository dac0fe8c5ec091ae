"""The in-cluster schedulers that we render for, one module each."""

from collections.abc import Mapping
from types import MappingProxyType

from modelplane.compose.gang import kai, kueue, none, volcano
from modelplane.compose.gang.gang_metadata import GangScheduler

SCHEDULERS: Mapping[str, GangScheduler] = MappingProxyType(
    {"None": none.SCHEDULER, "KAI": kai.SCHEDULER, "Kueue": kueue.SCHEDULER, "Volcano": volcano.SCHEDULER}
)
"""By `spec.scheduling.type` of an InferenceCluster."""
