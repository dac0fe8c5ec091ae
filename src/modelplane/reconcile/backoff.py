"""How long to wait after a failed pass: doubling, bounded, spread by key without randomness."""

from collections.abc import Hashable
from hashlib import blake2b

from modelplane.reconcile.settings import LoopSettings

_DIGEST_BYTES = 8
_DOUBLINGS_MOST = 64


def backoff_s(key: Hashable, attempt: int, settings: LoopSettings) -> float:
    """The wait after the attempt-th failure in a row (from 1). Equal keys with equal repr wait equally everywhere."""
    doublings = min(attempt - 1, _DOUBLINGS_MOST)
    full = min(settings.backoff_most_s, settings.backoff_first_s * 2.0**doublings)
    return full * (1 - settings.backoff_jitter * _share(key, attempt))


def _share(key: Hashable, attempt: int) -> float:
    """A number in [0, 1) that depends on nothing but its arguments (hash() is salted per process)."""
    digest = blake2b(f"{attempt}:{key!r}".encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest, "big") / 2.0 ** (8 * _DIGEST_BYTES)
