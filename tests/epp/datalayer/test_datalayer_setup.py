"""What a configuration says of the picker's data."""

import ssl

import pytest

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.kv_events import KvSettings
from modelplane.epp.datalayer.scrape import MetricsInUse
from modelplane.epp.datalayer.scrape.targets import ScrapeTarget
from modelplane.epp.datalayer.setup import (
    discovery_of,
    kv_listener_of,
    models_watcher_of,
    scraper_of,
    tokenizer_of,
    uses_of,
)
from modelplane.epp.scheduling.endpoints import Endpoint

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
ENDPOINT = Endpoint("default/p", "10.0.0.1:8000")


def configured(*plugins, rest=""):
    return load(HEAD + "plugins:\n" + "".join(f"- {plugin}\n" for plugin in plugins) + rest)


@pytest.mark.parametrize(
    ("plugins", "uses"),
    [
        (["{type: random-picker}"], MetricsInUse(load=False, cache=False)),
        (["{type: active-request-scorer}"], MetricsInUse(load=False, cache=False)),
        (["{type: prefix-cache-scorer}"], MetricsInUse(load=False, cache=True)),
        (["{type: queue-scorer}"], MetricsInUse()),
        (["{type: utilization-detector}"], MetricsInUse()),
        (["{type: prefix-cache-scorer}", "{type: kv-cache-utilization-scorer}"], MetricsInUse()),
    ],
)
def test_what_plugins_read_of_servers(plugins, uses):
    assert uses_of(configured(*plugins)) == uses


def test_by_default_everything_is_read_over_plain_http():
    config = load("")
    scraper = scraper_of(config)
    assert uses_of(config) == MetricsInUse()
    assert scraper._where(ENDPOINT) == ScrapeTarget("10.0.0.1", 8000)
    assert scraper._settings.intervals.busy_s == 0.2
    assert (discovery_of(config), kv_listener_of(config.build())) == (None, None)


def test_sources_and_extractors_of_the_ecosystem():
    config = configured(
        "{type: queue-scorer}",
        "{type: metrics-data-source, parameters: {scheme: https, path: /m, port: 9100, interval: 20ms}}",
        "{type: core-metrics-extractor, parameters: {defaultEngine: sglang}}",
        rest="dataLayer:\n  sources:\n"
        "  - {pluginRef: metrics-data-source, extractors: [{pluginRef: core-metrics-extractor}]}\n",
    )
    scraper = scraper_of(config)
    target = scraper._where(ENDPOINT)
    assert (target.host, target.port, target.path, target.tls.verify_mode) == ("10.0.0.1", 9100, "/m", ssl.CERT_NONE)
    assert scraper._where(Endpoint("x", "nonsense")) is None
    assert scraper._engines.of({}).name == "sglang"
    assert scraper._settings.intervals.busy_s == 0.05


def test_discovery_in_a_file(tmp_path):
    path = tmp_path / "endpoints.yaml"
    source = discovery_of(
        configured(
            "{type: queue-scorer}",
            f"{{type: file-discovery, parameters: {{path: {path}, watchFile: true}}}}",
            rest="dataLayer: {discovery: {pluginRef: file-discovery}}\n",
        )
    )
    assert (source._path, source._watch) == (path, True)


def test_kv_events_feed_the_precise_index():
    config = configured(
        "{type: precise-prefix-cache-producer, parameters: {kvEventsConfig: {topicFilter: kv@x}}}",
        "{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}",
    )
    assembly = config.build()
    listener = kv_listener_of(assembly)
    assert listener._settings == KvSettings(5557, 0, "kv@x")
    assert listener._index is assembly.plugins["precise-prefix-cache-producer"].index


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        (["{type: token-producer}"], None),
        (["{type: precise-prefix-cache-producer}"], ("", 1.0)),
        (["{type: precise-prefix-cache-producer}", "{type: token-producer}"], ("", 1.0)),
        (
            [
                "{type: precise-prefix-cache-producer}",
                "{type: token-producer, parameters: {vllm: {url: 'http://t:1', timeout: 2s}}}",
            ],
            ("http://t:1", 2.0),
        ),
        (
            [
                "{type: precise-prefix-cache-producer}",
                "{type: tokenizer, parameters: {vllm: {http: 'http://old:1'}}}",
            ],
            ("http://old:1", 5.0),
        ),
    ],
    ids=["no plugin needs tokens", "of the pool", "estimates do not do", "the one that is named", "by the old name"],
)
def test_a_tokenizer_is_called_if_the_precise_index_needs_it(plugins, expected):
    config = configured(*plugins)
    found = tokenizer_of(config, config.build())
    assert (found and (found._settings.url, found._settings.timeout_s)) == expected


def test_model_names_are_polled_if_they_are_read():
    assert models_watcher_of(load("")) is None
    assert models_watcher_of(configured("{type: model-filter}"))._every_s == 15
    rest = "dataLayer: {sources: [{pluginRef: models-data-source, extractors: [{pluginRef: models-data-extractor}]}]}\n"
    source = "{type: models-data-source, parameters: {interval: 3s, path: /names}}"
    watcher = models_watcher_of(configured("{type: queue-scorer}", source, "{type: models-data-extractor}", rest=rest))
    assert (watcher._every_s, watcher._where(ENDPOINT)) == (3, ScrapeTarget("10.0.0.1", 8000, "/names"))
