"""Parameters of older configurations, in which a scorer had its index, name the producer with the same settings."""

import msgspec
import pytest

from modelplane.epp.scheduling.parameters import (
    ActiveRequestParameters,
    ApproxPrefixParameters,
    FailingParameters,
    InFlightParameters,
    NoHitLruParameters,
    NoHitTokensParameters,
    PickerParameters,
    PrecisePrefixScorerParameters,
    PrefixCacheParameters,
)
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
            {
                "hashBlockSize": 64, "blockSizeTokens": 8, "blockSize": 32, "lruCapacityPerServer": 9,
                "maxPrefixBlocksToMatch": 7, "maxPrefixTokensToMatch": 5, "autoTune": True,
            },
            (
                "approx-prefix-cache-producer",
                {
                    "blockSizeTokens": 8, "blockSize": 32, "lruCapacityPerServer": 9,
                    "maxPrefixBlocksToMatch": 7, "maxPrefixTokensToMatch": 5, "autoTune": True,
                },
            ),
        ),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            ApproxPrefixParameters,
            {
                "autoTune": True, "blockSizeTokens": 16, "blockSize": 0, "maxPrefixTokensToMatch": 131072,
                "maxPrefixBlocksToMatch": 2048, "lruCapacityPerServer": 31250, "prefixHashSource": "body",
            },
        ),
        (PickerParameters, {"maxNumOfEndpoints": 1}),
        (
            ActiveRequestParameters,
            {
                "idleThreshold": 0, "maxBusyScore": 1.0, "minScaleRequests": 0, "maxScaleRequests": 0,
                "requestTimeout": "", "inFlightLoadProducerName": "",
            },
        ),
        (
            InFlightParameters,
            {
                "addEstimatedOutputTokens": False, "outputRatio": 1.5, "maxEstimatedOutputTokens": 0,
                "prefixMatchInfoProducerName": "", "syncCrossReplicaState": True,
            },
        ),
        (
            NoHitLruParameters,
            {"lruSize": 1024, "prefixMatchInfoProducerName": "", "prefixPluginName": "", "prefixPluginType": ""},
        ),
        (NoHitTokensParameters, {"prefixMatchInfoProducerName": ""}),
        (FailingParameters, {"threshold": 5, "probeProbability": 0.01}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_holds_where_nothing_is_set(kind, expected):
    assert msgspec.to_builtins(convert({}, kind)) == expected


def test_a_prefix_scorer_counts_shares_alone_where_nothing_is_set():
    found = convert({}, PrefixCacheParameters)
    assert (found.match_length_weight, found.match_length_scale_tokens) == (0.0, 8192)


@pytest.mark.parametrize(
    ("kind", "name", "least"), [(NoHitLruParameters, "lruSize", 1), (ActiveRequestParameters, "minScaleRequests", 0)]
)
def test_a_size_is_at_least_1_and_a_count_at_least_0(kind, name, least):
    assert msgspec.to_builtins(convert({name: least}, kind))[name] == least
    with pytest.raises(msgspec.ValidationError, match=name):
        convert({name: least - 1}, kind)
