"""Pickers: the order in which scored endpoints are tried. None imports another."""

from modelplane.epp.scheduling.pickers import max_score, random, weighted_random

TYPES = (
    *max_score.TYPES,
    *random.TYPES,
    *weighted_random.TYPES,
)
