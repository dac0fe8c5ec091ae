"""Settings of flow control: limits, timeouts and policies of the `flowControl` section, or the defaults."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from modelplane.epp.flowcontrol.fairness import FairnessPolicy, Strict
from modelplane.epp.flowcontrol.ordering import FirstCome, OrderingPolicy
from modelplane.epp.flowcontrol.usage import Static, UsageLimitPolicy
from modelplane.epp.flowcontrol.worker_share import WorkerShare


class BandSettings(msgspec.Struct, frozen=True, eq=False):
    """Requests of one priority. A limit of 0 is none."""

    max_requests: int = 5000
    max_bytes: int = 1_000_000_000
    fairness: FairnessPolicy = Strict("global-strict-fairness-policy")
    ordering: OrderingPolicy = FirstCome("fcfs-ordering-policy")

    def divided(self, share: WorkerShare) -> "BandSettings":
        requests, size = share.of(self.max_requests), share.of(self.max_bytes)
        return msgspec.structs.replace(self, max_requests=requests, max_bytes=size)


class FlowSettings(msgspec.Struct, frozen=True, eq=False):
    max_requests: int = 0
    """The limit of all bands together; 0: no limit."""
    max_bytes: int = 0
    ttl_s: float = 60.0
    """How long a request is queued while the pool is saturated; 0: no limit."""
    no_endpoint_ttl_s: float = 60.0
    """How long it is queued while the pool has no endpoint."""
    bands: Mapping[int, BandSettings] = MappingProxyType({})
    default_band: BandSettings = BandSettings()
    """For priorities that are not listed."""
    negative_band: BandSettings = BandSettings()
    """For those below 0."""
    usage: UsageLimitPolicy = Static("static-usage-limit-policy")
    evicts: bool = False

    def divided(self, share: WorkerShare) -> "FlowSettings":
        """The part of one worker: each has its own queues."""
        return msgspec.structs.replace(
            self,
            max_requests=share.of(self.max_requests),
            max_bytes=share.of(self.max_bytes),
            bands={priority: band.divided(share) for priority, band in self.bands.items()},
            default_band=self.default_band.divided(share),
            negative_band=self.negative_band.divided(share),
        )

    def band(self, priority: int) -> BandSettings:
        return self.bands.get(priority) or (self.negative_band if priority < 0 else self.default_band)
