"""Parameters of older configurations, in which a scorer had its index, name the producer with the same settings."""

import pytest

from modelplane.epp.scheduling.parameters import PrecisePrefixScorerParameters, PrefixCacheParameters
from modelplane.epp.scheduling.units import convert


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"matchLengthWeight": 0.5, "prefixMatchInfoProducerName": "p"}, None),
        ({"autoTune": False}, ("approx-prefix-cache-producer", {"autoTune": False})),
        ({"hashBlockSize": 64}, ("approx-prefix-cache-producer", {"blockSizeTokens": 16})),
        ({"hashBlockSize": 2}, ("approx-prefix-cache-producer", {"blockSizeTokens": 1})),
        (
            {"hashBlockSize": 64, "blockSizeTokens": 8, "lruCapacityPerServer": 9},
            ("approx-prefix-cache-producer", {"blockSizeTokens": 8, "lruCapacityPerServer": 9}),
        ),
    ],
)
def test_the_settings_of_an_approximate_index(given, expected):
    assert convert(given, PrefixCacheParameters).names_producer() == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"speculativeIndexing": True, "speculativeTTL": "2s"}),
        (
            {"indexerConfig": {"tokenProcessorConfig": {"blockSize": 8}}, "speculativeIndexing": True},
            {
                "indexerConfig": {"tokenProcessorConfig": {"blockSize": 8}},
                "speculativeIndexing": True,
                "speculativeTTL": "2s",
            },
        ),
    ],
)
def test_the_settings_of_a_precise_index(given, expected):
    assert convert(given, PrecisePrefixScorerParameters).names_producer() == ("precise-prefix-cache-producer", expected)
