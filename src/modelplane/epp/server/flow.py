"""Flow control as the director has it."""

import msgspec

from modelplane.epp.flowcontrol import Evictor, FlowControl, PoolSaturation


class Flow(msgspec.Struct, frozen=True, eq=False):
    """Flow control, its saturation detector, and the evictor if requests may be evicted."""

    control: FlowControl
    gauge: PoolSaturation
    evictor: Evictor | None = None
