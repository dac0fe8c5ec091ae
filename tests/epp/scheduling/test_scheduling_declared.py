"""Types that other components read: which part each serves as, and what its parameters are where nothing is set."""

import msgspec
import pytest

from modelplane.epp.scheduling import declared
from modelplane.epp.scheduling.units import convert, encode


def test_the_part_that_each_type_serves_as():
    found = {}
    for each in declared.TYPES:
        found.setdefault(tuple(sorted(each.parts)), []).append(each.name)
    assert found == {
        ("parser",): [
            "openai-parser", "anthropic-parser", "vllmhttp-parser", "sglanghttp-parser", "vllmgrpc-parser",
            "vertexai-parser", "passthrough-parser",
        ],
        ("source",): [
            "metrics-data-source", "models-data-source", "dcgm-data-source", "endpoint-notification-source",
            "k8s-notification-source", "multicluster-metrics-data-source",
        ],
        ("extractor",): [
            "core-metrics-extractor", "models-data-extractor", "dcgm-extractor", "topology-extractor",
            "multicluster-metrics-extractor",
        ],
        ("discovery",): ["file-discovery", "multicluster-file-discovery"],
        ("tokens",): ["token-producer", "tokenizer"],
        ("identity",): ["agent-identity"],
        ("verifier",): ["destination-endpoint-served-verifier"],
        ("syncer",): ["local-syncer"],
        ("without effect",): [
            "disagg-headers-handler", "prefill-header-handler", "request-attribute-reporter",
            "disaggregatedset-rollout-screener", "burst-prefix-cache-producer", "models-responder",
            "dp-rank-header-handler", "outlen-bucket", "session-interturn-latency-producer", "kv-cache-hint",
            "kv-cache-hint-v2",
        ],
        ("extractor", "without effect"): ["mm-embeddings-cache-producer"],
    }  # fmt: skip


def test_what_replaces_a_type():
    assert {each.name: each.replaced_by for each in declared.TYPES if each.replaced_by} == {
        "tokenizer": "token-producer",
        "disagg-headers-handler": "disagg-profile-handler",
        "prefill-header-handler": "disagg-profile-handler",
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            declared.ScrapeParameters,
            {
                "scheme": "http", "path": "", "port": None, "insecureSkipVerify": True, "caCertPath": "",
                "clientCertPath": "", "clientKeyPath": "", "interval": None,
            },
        ),
        (
            declared.DcgmParameters,
            {
                "scheme": "http", "path": "/metrics", "port": 9400, "insecureSkipVerify": True,
                "useNodeAddress": False, "interval": None,
            },
        ),
        (
            declared.CoreMetricsParameters,
            {
                "engineLabelKey": "llm-d.ai/engine-type", "defaultEngine": "vllm", "engineConfigs": (),
                "customMetrics": (),
            },
        ),
        (
            declared.TopologyExtractorParameters,
            {
                "hostname": "kubernetes.io/hostname", "rack": "topology.kubernetes.io/rack",
                "zone": "topology.kubernetes.io/zone", "region": "topology.kubernetes.io/region",
            },
        ),
        (
            declared.VllmTokenizer,
            {"url": "http://localhost:8000", "http": "", "timeout": "5s", "mmTimeout": "30s"},
        ),
        (declared.TokenParameters, {"modelName": "", "vllm": None, "estimate": None, "udsTokenizerConfig": None}),
        (declared.DisaggregationHeaderParameters, {"prefillProfile": "prefill", "encodeProfile": "encode"}),
        (declared.MultimodalCacheParameters, {"cacheSizeInMBPerServer": 4096, "cacheSizeInMB": 0}),
        (
            declared.BurstParameters,
            {
                "windowDurationMs": 100, "maxPerReplica": -1, "blockSizeTokens": 64, "maxPrefixTokensToMatch": 131072,
                "minColocateBlocks": 0, "maxBatchSize": 1000, "balanceBy": "requests",
            },
        ),
        (
            declared.InterTurnParameters,
            {
                "sessionTypeHeader": "x-session-type", "queues": (), "initialLogMean": 2.28, "initialLogStd": 1.34,
                "emaFactor": 0.1, "minSamples": 20, "windowSize": 200, "minInterval": "0.1s", "maxIdle": "3600s",
                "maxSessions": 100_000,
            },
        ),
        (declared.Retention, {"quantile": 0.9, "minTTL": "1s", "maxTTL": "600s", "priority": 70}),
        (
            declared.BoundedCacheHintParameters,
            {
                "parentSessionHeader": "x-parent-session-id", "queues": (), "maxProtectedPrefixTokens": 16_384,
                "protectionBudgetTokens": 1_000_000,
            },
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_holds_where_nothing_is_set(kind, expected):
    assert msgspec.to_builtins(convert({}, kind), enc_hook=encode) == expected


def test_a_file_is_read_once_where_nothing_else_is_said():
    assert convert({"path": "p"}, declared.FileDiscoveryParameters).watch_file is False


def test_ports():
    assert [convert({"port": port}, declared.ScrapeParameters).port for port in (1, 65535)] == [1, 65535]
    for port in (0, 65536):
        with pytest.raises(msgspec.ValidationError, match="port"):
            convert({"port": port}, declared.ScrapeParameters)
