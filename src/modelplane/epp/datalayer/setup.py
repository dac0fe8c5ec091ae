"""The data layer of a configuration: discovery, scraping, KV events and the tokenizer.

A configuration of the ecosystem names sources, extractors and discovery as plugins. Here they are settings of three
background services: an endpoint source, a scraper, and a subscriber to KV events.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from modelplane.epp.config.config import Config
from modelplane.epp.datalayer.data_sources import DataSourcePoller
from modelplane.epp.datalayer.discovery.endpoints_file import FileEndpoints
from modelplane.epp.datalayer.kv_events import KvEventSubscriber, settings_from
from modelplane.epp.datalayer.scrape import (
    Engines,
    MetricsInUse,
    ScrapeIntervals,
    Scraper,
    ScrapeSettings,
    engines_from,
)
from modelplane.epp.datalayer.scrape.models_poller import ModelsPoller
from modelplane.epp.datalayer.scrape.targets import ScrapeTarget, TargetOf, models_of, page_of
from modelplane.epp.datalayer.tokenizer import Tokenizer, TokenizerSettings
from modelplane.epp.scheduling.assembly import Assembly
from modelplane.epp.scheduling.declared import (
    CoreMetricsParameters,
    FileDiscoveryParameters,
    ScrapeParameters,
    TokenParameters,
)
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.plugins import DataSource
from modelplane.epp.scheduling.producers.precise_producer import PrecisePrefixProducer
from modelplane.framework import PluginFault
from modelplane.framework.registry import PluginEntry

_SCRAPES: Final = ("metrics-data-source", "multicluster-metrics-data-source")
_MODELS: Final = "models-data-source"
_FASTEST_S: Final = 0.05
_CACHE_READERS: Final = frozenset({"approx-prefix-cache-producer", "precise-prefix-cache-producer"})
_BLIND: Final = frozenset({
    "active-request-scorer", "agent-identity", "by-label", "by-label-selector", "cost-scorer", "decode-filter",
    "disagg-profile-handler", "encode-filter", "fcfs-ordering-policy", "global-strict-fairness-policy",
    "header-based-testing-filter", "header-label-affinity-scorer", "inflight-load-producer", "label-selector-filter",
    "max-score-picker", "no-hit-lru-scorer", "no-hit-tokens-scorer", "openai-parser", "pd-profile-handler",
    "prefill-filter", "prefix-based-pd-decider", "prefix-cache-scorer", "random-picker", "session-affinity-filter",
    "session-affinity-scorer", "session-id-producer", "shadow-profile-handler", "single-profile-handler",
    "token-load-scorer", "token-producer", "weighted-random-picker",
})  # fmt: skip
"""Types that are known to read nothing of a server's load. Any other may."""


def discovery_of(config: Config) -> FileEndpoints | None:
    """The file of endpoints that the configuration names; None: it names none."""
    layer = config.data_layer.discovery
    entry = config.entry(layer.plugin_ref) if layer is not None else None
    if entry is None or not isinstance(entry.parameters, FileDiscoveryParameters):
        return None
    return FileEndpoints(Path(entry.parameters.path), watch=entry.parameters.watch_file)


def scraper_of(config: Config, interval_s: float | None = None) -> Scraper:
    """Scrapes as the configuration says, as often as its plugins need. It may leave the interval to its caller."""
    source = next((one.parameters for one in config.declared("source") if one.type in _SCRAPES), None)
    parameters = source if isinstance(source, ScrapeParameters) else ScrapeParameters()
    intervals = ScrapeIntervals()
    given_s = interval_s if parameters.interval is None else float(parameters.interval)
    if given_s is not None:
        busy_s = max(_FASTEST_S, given_s)
        intervals = ScrapeIntervals(
            busy_s=busy_s, warm_s=max(busy_s, intervals.warm_s), idle_s=max(busy_s, intervals.idle_s)
        )
    settings = ScrapeSettings(intervals, uses_of(config))
    return Scraper(_engines(config), settings, where=_where(parameters, page_of))


def models_watcher_of(config: Config) -> ModelsPoller | None:
    """Polls /v1/models, if a plugin reads model names or a source is declared."""
    source = next((one.parameters for one in config.declared("source") if one.type == _MODELS), None)
    reads = any(entry.type == "model-filter" for entry in config.entries)
    if source is None and not reads:
        return None
    parameters = source if isinstance(source, ScrapeParameters) else ScrapeParameters()
    where = _where(parameters, models_of)
    return (
        ModelsPoller(every_s=float(parameters.interval), where=where)
        if parameters.interval
        else ModelsPoller(where=where)
    )


def data_sources_of(assembly: Assembly, on_fault: Callable[[PluginFault], None]) -> DataSourcePoller | None:
    """Calls the data sources of other packages, if there are any."""
    sources = [plugin for plugin in assembly.plugins.values() if isinstance(plugin, DataSource)]
    return DataSourcePoller(sources, on_fault) if sources else None


def kv_listener_of(assembly: Assembly) -> KvEventSubscriber | None:
    """For the precise index, where there is one. After a change of configuration, `feed` it the new one's index."""
    producer = precise_of(assembly)
    if producer is None:
        return None
    return KvEventSubscriber(producer.index, settings_from(producer.parameters.kv_events_config))


def tokenizer_of(config: Config, assembly: Assembly) -> Tokenizer | None:
    """Requests tokens, if the precise index needs them."""
    if precise_of(assembly) is None:
        return None
    found = next((one.parameters for one in config.declared("tokens")), None)
    server = found.vllm if isinstance(found, TokenParameters) else None
    if server is None:
        return Tokenizer()
    return Tokenizer(TokenizerSettings(url=server.http or server.url, timeout_s=float(server.timeout)))


def precise_of(assembly: Assembly) -> PrecisePrefixProducer | None:
    return next((one for one in assembly.plugins.values() if isinstance(one, PrecisePrefixProducer)), None)


def uses_of(config: Config) -> MetricsInUse:
    """The metrics that the configured plugins read. Plugins of other packages may read all of them."""
    flows = config.gates.get("flowControl", False)
    types = {entry.type for entry in config.entries if _decides(config, entry, flows=flows)}
    load = flows or bool(types - _BLIND - _CACHE_READERS)
    return MetricsInUse(load=load, cache=load or not _CACHE_READERS.isdisjoint(types))


def _decides(config: Config, entry: PluginEntry, *, flows: bool) -> bool:
    """Whether decisions depend on the plugin. A detector that no profile holds works for flow control alone."""
    parts = config.registry[entry.type].parts
    if not parts:
        return True
    return "detector" in parts and (flows or any(entry.name in plan.filters for plan in config.profiles))


def _engines(config: Config) -> Engines:
    found = (one.parameters for one in config.declared("extractor"))
    core = next((each for each in found if isinstance(each, CoreMetricsParameters)), None)
    return Engines() if core is None else engines_from(core)


def _where(parameters: ScrapeParameters, usual: TargetOf) -> TargetOf:
    tls = _tls(parameters) if parameters.scheme == "https" else None

    def where(endpoint: Endpoint) -> ScrapeTarget | None:
        target = usual(endpoint)
        if target is None:
            return None
        return ScrapeTarget(target.host, parameters.port or target.port, parameters.path or target.path, tls)

    return where


def _tls(parameters: ScrapeParameters) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=parameters.ca_cert_path or None)
    if parameters.insecure_skip_verify and not parameters.ca_cert_path:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if parameters.client_cert_path:
        context.load_cert_chain(parameters.client_cert_path, parameters.client_key_path or None)
    return context
