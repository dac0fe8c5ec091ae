"""`PreRequest` plugins that add request headers. None imports another."""

from modelplane.epp.scheduling.pre_request import p2p_source

TYPES = (*p2p_source.TYPES,)
