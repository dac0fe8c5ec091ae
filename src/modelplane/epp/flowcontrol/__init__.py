"""Flow control: requests are queued while the pool is saturated, and dispatched by priority and fairness.

A flow is the requests of one fairness ID and one priority. A priority band is the flows of one priority.

control       the state machine: enqueue, dispatch, expire, abandon, stop
items         a queued request, and its final state
settings      limits, times and policies, from configuration
fairness      fairness policies: inter-flow dispatch, which flow of a band is next
least_served  the fairness policy by attained service
ordering      ordering policies: intra-flow dispatch, which request of a flow is next
flow_usage    what each flow has in its band's queue, and which requests are displaced when it is full
usage         usage-limit policies: the saturation at which a band has to wait
saturation    saturation detectors
worker_share  limits that hold for all workers of a picker together
eviction      which running requests are evicted for more urgent ones
types         the plugin types by name
"""

from modelplane.epp.flowcontrol.control import FlowControl
from modelplane.epp.flowcontrol.eviction import EvictionLimits, Evictor
from modelplane.epp.flowcontrol.items import FlowItem, QueueOutcome
from modelplane.epp.flowcontrol.saturation import PoolSaturation, SaturationDetector, detector_of, pool_saturation
from modelplane.epp.flowcontrol.settings import BandSettings, FlowSettings
from modelplane.epp.flowcontrol.worker_share import FULL, WorkerShare

__all__ = [
    "FULL",
    "BandSettings",
    "EvictionLimits",
    "Evictor",
    "FlowControl",
    "FlowItem",
    "FlowSettings",
    "PoolSaturation",
    "QueueOutcome",
    "SaturationDetector",
    "WorkerShare",
    "detector_of",
    "pool_saturation",
]
