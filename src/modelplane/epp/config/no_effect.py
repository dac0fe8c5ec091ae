"""Parameters of the ecosystem that are read and change nothing here, and those that are refused.

A configuration that loads elsewhere should load here, and nobody should believe that a setting works which does not:
each parameter of the first table is a warning where it is given, an error with `--strict`. The second table has those
whose absence would change what a pool does: they are errors.
"""

from collections.abc import Iterator, Mapping

from modelplane.k8s.admission.paths import Path

_HASHES = "hashes never leave the picker"
_ONE_INDEX = "there is one kind of index"
_NO_TOKENIZER = "the index has no tokenizer of its own; token-producer configures one"
_ONE_COUNT = "there is one count of requests in flight, and one prefix index a profile"
_NO_FEATURE = "the regressions have no such feature"
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
}
"""Why a parameter changes nothing, by plugin type and path."""

_SHARED = "a shared index is not supported; every picker reads the engines' KV events itself, so leave it out"
_SHARED_INDEX: Mapping[str, str] = {
    f"indexerConfig.kvBlockIndexConfig.{store}": _SHARED for store in ("redisConfig", "valkeyConfig")
}
REFUSED: Mapping[str, Mapping[str, str]] = {
    "precise-prefix-cache-producer": _SHARED_INDEX,
    "precise-prefix-cache-scorer": _SHARED_INDEX,
}
"""Why a parameter is refused, by plugin type and path."""


def given_of(table: Mapping[str, Mapping[str, str]], kind: str, parameters: object) -> Iterator[tuple[Path, str]]:
    """The parameters of a table that are given, with the reason."""
    for dotted, why in table.get(kind, {}).items():
        path = tuple(dotted.split("."))
        if _is_given(parameters, path):
            yield path, why


def _is_given(value: object, path: Path) -> bool:
    for step in path:
        if not isinstance(value, Mapping) or value.get(step) is None:
            return False
        value = value[step]
    return True
