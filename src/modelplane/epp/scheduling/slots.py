"""What handlers tell the plugins of later profiles."""

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.framework import Slot

PEER: Slot[Endpoint] = Slot("peer")
"""The endpoint picked so far, which the next one will exchange KV blocks with."""
