"""What handlers tell the plugins of later profiles."""

from modelplane.framework import Slot
from modelplane.picker.endpoints import Endpoint

PEER: Slot[Endpoint] = Slot("peer")
"""The endpoint picked so far, which the next one will exchange KV blocks with."""
