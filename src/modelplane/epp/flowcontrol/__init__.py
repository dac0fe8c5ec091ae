"""Flow control: requests wait while the pool is full, and leave in an order that is fair between tenants.

control       the state machine: offer, dispatch, expire, abandon, stop
tickets       a request that waits, and how its wait can end
settings      limits, times and policies, from configuration
fairness      whose turn it is among the tenants of one priority
least_served  the same, by what tenants attained lately
ordering      which of a tenant's requests goes first
usage         how full the pool may be before a priority has to wait
saturation    how full the pool is
eviction      which requests that run make room for more urgent ones
types         the plugin types by name
"""

from modelplane.epp.flowcontrol.control import FlowControl
from modelplane.epp.flowcontrol.eviction import EvictionLimits, Evictor
from modelplane.epp.flowcontrol.saturation import FULL, PoolGauge, SaturationDetector, detector_of, pool_saturation
from modelplane.epp.flowcontrol.settings import BandSettings, FlowSettings
from modelplane.epp.flowcontrol.tickets import Ticket, WaitOutcome

__all__ = [
    "FULL",
    "BandSettings",
    "EvictionLimits",
    "Evictor",
    "FlowControl",
    "FlowSettings",
    "PoolGauge",
    "SaturationDetector",
    "Ticket",
    "WaitOutcome",
    "detector_of",
    "pool_saturation",
]
