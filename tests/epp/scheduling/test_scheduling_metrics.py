from math import inf, nan

import pytest

from modelplane.epp.scheduling.metrics import EndpointMetrics, aged

FRESH = EndpointMetrics(
    waiting=8.0,
    running=4.0,
    kv_cache_usage=0.5,
    block_size=16,
    blocks=100,
    models=frozenset({"m"}),
    scraped_s=3.0,
    requests_at_scrape=5,
    tokens_at_scrape=401,
)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1.0, (8.0, 4.0, 0.5, 5, 401)),
        (0.5, (4.0, 2.0, 0.25, 2, 200)),
        (0.0, (0.0, 0.0, 0.0, 0, 0)),
    ],
)
def test_the_load_of_an_old_scrape_counts_by_a_share(share, expected):
    found = aged(FRESH, share)
    load = (found.waiting, found.running, found.kv_cache_usage, found.requests_at_scrape, found.tokens_at_scrape)
    assert load == expected
    assert (found.block_size, found.blocks, found.models, found.scraped_s) == (16, 100, frozenset({"m"}), 3.0)


@pytest.mark.parametrize(
    ("given", "count", "share"),
    [
        (0.5, 0.5, 0.5),
        (0.0, 0.0, 0.0),
        (1.0, 1.0, 1.0),
        (1.5, 1.5, 1.0),
        (-1.0, 0.0, 0.0),
        (1e12, 1e12, 1.0),
        (2e12, 1e12, 1.0),
        (inf, 1e12, 1.0),
        (nan, 0.0, 1.0),
    ],
)
def test_numbers_are_kept_in_their_range(given, count, share):
    found = EndpointMetrics(waiting=given, running=given, kv_cache_usage=given)
    assert (found.waiting, found.running, found.kv_cache_usage) == (count, count, share)
