"""The loader: stages the files of a model on a volume, checked and resumable, and publishes them at once.

`modelplane hydrate` runs it in a Job on each cluster that a ModelCache matches. It imports the API only, and talks to
sources over HTTP with the standard library (design/0023-the-loader.md).
"""

from modelplane.hydrate.check import incomplete
from modelplane.hydrate.errors import HydrateError, OutOfSpaceError, TryAgainError
from modelplane.hydrate.hydration import Hydration, HydrationOptions
from modelplane.hydrate.origins import OriginOptions, origin_of
from modelplane.hydrate.sources import read_source
from modelplane.hydrate.volume import MARKER, CacheVolume, CompleteMarker, read_marker

__all__ = [
    "MARKER",
    "CacheVolume",
    "CompleteMarker",
    "HydrateError",
    "Hydration",
    "HydrationOptions",
    "OriginOptions",
    "OutOfSpaceError",
    "TryAgainError",
    "incomplete",
    "origin_of",
    "read_marker",
    "read_source",
]
