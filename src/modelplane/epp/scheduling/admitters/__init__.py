"""Admitters: whether a request is admitted, whichever endpoint would serve it. None imports another."""

from modelplane.epp.scheduling.admitters import latency_slo, probabilistic

TYPES = (*latency_slo.TYPES, *probabilistic.TYPES)
