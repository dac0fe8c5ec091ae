"""Types and parameters of the ecosystem that are read and change nothing here, and those that are refused.

A configuration that loads elsewhere should load here, and nobody should believe that a setting works which does not:
what stands in a table `NO_EFFECT` is a warning where it is given, an error with `--strict`. A table `REFUSED` has what
would be missed: it is an error, which says what to use instead.
"""

from collections.abc import Iterator, Mapping

from modelplane.k8s.admission.paths import Path

_HASHES = "hashes never leave the picker"
_ONE_INDEX = "there is one kind of index"
_NO_TOKENIZER = "the index has no tokenizer of its own; token-producer configures one"
_ONE_COUNT = "there is one count of requests in flight, and one prefix index a profile"
_NO_FEATURE = "the regressions have no such feature"
_WELL_KNOWN = "topology is read from the labels of the defaults, whatever is named here"
_RUNS_OUT = "a request counts until its stream ends, however long that takes"

_PRECISE: Mapping[str, str] = {
    "tokenProcessorConfig.hashSeed": _HASHES,
    "tokenProcessorConfig.hashAlgorithm": _HASHES,
    "indexerConfig.tokenProcessorConfig.hashSeed": _HASHES,
    "indexerConfig.tokenProcessorConfig.hashAlgorithm": _HASHES,
    "indexerConfig.kvBlockIndexConfig": _ONE_INDEX,
    "indexerConfig.prefixStoreConfig": _ONE_INDEX,
    "indexerConfig.tokenizersPoolConfig": _NO_TOKENIZER,
}
_LATENCY: Mapping[str, str] = {
    "endpointRoleLabel": "each endpoint has its own regressions, whatever its role",
    "prefixMatchInfoProducerName": _ONE_COUNT,
    "inFlightLoadProducerName": _ONE_COUNT,
    "useEncoderCacheFeatures": _NO_FEATURE,
    "encoderCacheMatchInfoProducerName": _NO_FEATURE,
    "samplingMean": _NO_FEATURE,
    "maxDecodeTokenSamplesForPrediction": _NO_FEATURE,
}
NO_EFFECT: Mapping[str, Mapping[str, str]] = {
    "precise-prefix-cache-producer": _PRECISE,
    "precise-prefix-cache-scorer": _PRECISE,
    "predicted-latency-producer": _LATENCY,
    "predicted-latency-scorer": {"endpointRoleLabel": _LATENCY["endpointRoleLabel"], "samplingMean": _NO_FEATURE},
    "active-request-scorer": {"requestTimeout": _RUNS_OUT},
    "no-hit-lru-scorer": {"prefixPluginType": "the name of the plugin is enough"},
    "pd-profile-handler": {"hashBlockSize": "the index has its own block size"},
    "topology-extractor": dict.fromkeys(("hostname", "rack", "zone", "region"), _WELL_KNOWN),
}
"""Why a parameter changes nothing, by plugin type and path."""

_NO_RETENTION = "requests get no retention directives, and engines evict by recency"
NO_EFFECT_TYPES: Mapping[str, str] = {
    "request-attribute-reporter": "responses get no metadata; the decision log has usage",
    "disaggregatedset-rollout-screener": "endpoints of all revisions are candidates",
    "burst-prefix-cache-producer": "requests are not held to be placed together",
    "mm-embeddings-cache-producer": "what is cached of images, audio and video is not known",
    "mm-embeddings-cache-scorer": "what is cached of images, audio and video is not known",
    "models-responder": (
        "GET /v1/models reaches one endpoint, which lists its own models; model-filter keeps requests to endpoints "
        "that serve their model"
    ),
    "dp-rank-header-handler": "ranks that share a port are one endpoint, and the engine chooses the rank",
    "outlen-bucket": "outputRatio of inflight-load-producer estimates all outputs alike",
    "session-interturn-latency-producer": "nothing reads when the next turn of a session is expected",
    "kv-cache-hint": _NO_RETENTION,
    "kv-cache-hint-v2": _NO_RETENTION,
}
"""Why a plugin type changes nothing."""

_PEERS = "pickers share what is in flight and which prompts went where without a store; use --peers, and leave it out"
REFUSED_TYPES: Mapping[str, str] = {
    "thunder-agent": (
        "sessions are not admitted by the KV cache that they hold; use session-affinity-filter with the strategy "
        "session_id for the endpoint of a session, and program-aware-fairness with utilization-detector for admission"
    ),
    "redis-syncer": _PEERS,
    "redis-state-store": _PEERS,
}
"""Why a plugin type is refused, and what to use instead."""

_SHARED = "a shared index is not supported; every picker reads the engines' KV events itself, so leave it out"
_SHARED_INDEX: Mapping[str, str] = {
    f"indexerConfig.kvBlockIndexConfig.{store}": _SHARED for store in ("redisConfig", "valkeyConfig")
}
REFUSED: Mapping[str, Mapping[str, str]] = {
    "precise-prefix-cache-producer": _SHARED_INDEX,
    "precise-prefix-cache-scorer": _SHARED_INDEX,
    "approx-prefix-cache-producer": {
        "prefixHashSource=metadata": "hashes of a processor before this one are not read; the prompt is hashed here"
    },
}
"""Why a parameter is refused, by plugin type and path, or path and value."""


def given_of(table: Mapping[str, Mapping[str, str]], kind: str, parameters: object) -> Iterator[tuple[Path, str]]:
    """The parameters of a table that are given, with the reason."""
    for written, why in table.get(kind, {}).items():
        dotted, _, wanted = written.partition("=")
        path = tuple(dotted.split("."))
        given = _given(parameters, path)
        if given is not None and (not wanted or given == wanted):
            yield path, why


def _given(value: object, path: Path) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
