"""Admitters: whether a request is taken at all, whichever endpoint would serve it. None imports another."""

from modelplane.picker.admitters import (
    probabilistic,
)

TYPES = (*probabilistic.TYPES,)
