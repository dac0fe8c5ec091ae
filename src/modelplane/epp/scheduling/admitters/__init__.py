"""Admitters: whether a request is admitted, before an endpoint is picked. None imports another."""

from modelplane.epp.scheduling.admitters import latency_slo, probabilistic

TYPES = (*latency_slo.TYPES, *probabilistic.TYPES)
