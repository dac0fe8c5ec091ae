"""Plugins that hear of picks and add to what the server is told. None imports another."""

from modelplane.epp.scheduling.pre_request import p2p_source

TYPES = (*p2p_source.TYPES,)
