"""The cache keeps what is used and stays within its bound."""

from modelplane.crossplane.bounded_cache import BoundedCache


def test_a_cache_is_bounded_and_keeps_what_is_used():
    cache = BoundedCache(80)
    for number in range(100):
        cache.put(number, str(number), 10)
        assert cache.get(0) == "0"
    kept = {**cache._old, **cache._young}
    assert {0, 99} <= kept.keys() <= {0, *range(91, 100)}
    assert cache.get(1) is None
