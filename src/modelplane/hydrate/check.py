"""Whether a volume holds what was staged on it.

Pods ask before their engine starts: a volume may be emptied, restored or replaced while its claim stays the same.
Contents are not read: the marker is written after the digests were checked, and a file without its size is not whole.
"""

from pathlib import Path

from modelplane.hydrate.volume import MARKER, CacheVolume


def incomplete(folder: Path, cache_key: str) -> str | None:
    """What is wrong with the volume of a cache; None where it is complete. `cache_key` is that of its source."""
    volume = CacheVolume(folder)
    marker = volume.marker()
    if marker is None:
        return f"the volume is empty or its staging did not end: {MARKER} is not there"
    if marker.cache_key not in {None, cache_key}:
        return f"the volume was staged for cache key {marker.cache_key}, and {cache_key} is wanted"
    missing = volume.first_missing(marker)
    if missing is not None:
        return f"the volume was changed after it was staged: {missing.path} is not there with {missing.size} bytes"
    return None
