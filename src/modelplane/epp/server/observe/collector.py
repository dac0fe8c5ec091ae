"""Prometheus' view of the metrics, under the names that operators already chart.

Names, labels and buckets are those of the ecosystem's picker (`llm_d_epp_…`). Only known values are exported: there is
no series for the time between tokens, since responses do not pass through the picker. Deprecated names are exported in
addition on demand: the same metrics, summed over the labels that the old series lack.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, pstdev

import msgspec
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.observe.families import Aggregation, Family, MetricType, metric_of, parts_of, text_of
from modelplane.epp.server.observe.metrics import Histogram, PickerMetrics, RequestMetrics

PREFIX = "llm_d_epp_"
_FULL = ("model_name", "target_model_name", "fairness_id", "priority")
_MODELS = ("model_name", "target_model_name")

Values = dict[tuple[str, ...], float]
Histograms = dict[tuple[str, ...], Histogram]


class PoolStats(msgspec.Struct, frozen=True):
    """Values at the time of collection."""

    name: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    stale: int = 0
    """Endpoints whose metrics are stale."""
    poll_errors: int = 0
    extract_errors: int = 0
    saturation: Mapping[str, float] = {}
    """By stage; empty if it is not computed."""
    waiting: tuple[tuple[int, int, int], ...] = ()
    """Priority, requests and bytes that wait."""
    queues: Mapping[str, tuple[float, float]] = {}
    """How full the queue of each priority is, by requests and by bytes; "" is all of them together."""
    prefix: "PrefixIndexStats | None" = None
    """None without a prefix index."""
    faults: Mapping[str, int] = {}
    """Faults of plugins, by the plugin's name."""
    durations: Mapping[tuple[str, str, str], Histogram] = {}
    """How long plugins took, by extension point, type and name."""
    peers: int | None = None
    """Other pickers of the pool that this one hears; None where it shares nothing."""


class PrefixIndexStats(msgspec.Struct, frozen=True):
    """Statistics of a prefix index."""

    blocks: int
    hit_ratios: Histogram
    hit_bytes: Histogram


class _OfRecords(msgspec.Struct, frozen=True):
    """How a number of each record is shown, and under which older name."""

    name: str
    help: str
    of: Callable[[RequestMetrics], Histogram]
    old: str = ""


_HISTOGRAMS = (
    _OfRecords("request_duration_seconds", "Seconds to the end of the response.", lambda record: record.whole,
            "inference_objective_request_duration_seconds"),
    _OfRecords("request_size_bytes", "Bytes of request bodies.", lambda record: record.sizes,
            "inference_objective_request_sizes"),
    _OfRecords("request_input_tokens", "Prompt tokens, from the usage in responses.", lambda record: record.inputs,
            "inference_objective_input_tokens"),
    _OfRecords("request_output_tokens", "Output tokens, from the usage in responses.", lambda record: record.outputs,
            "inference_objective_output_tokens"),
    _OfRecords("request_cached_tokens", "Prompt tokens found in a prefix cache.", lambda record: record.cached,
            "inference_objective_prompt_cached_tokens"),
    _OfRecords("request_ntpot_seconds", "Seconds to the end, for each output token.", lambda record: record.ntpot,
            "inference_objective_normalized_time_per_output_token_seconds"),
    _OfRecords("request_streaming_tpot_seconds", "Seconds for each token after the first.", lambda record: record.tpot),
)  # fmt: skip


class PickerCollector(Collector):
    """`pool` is called at each collection."""

    def __init__(
        self, metrics: PickerMetrics, pool: Callable[[], PoolStats], *, version: str = "", legacy: bool = False
    ) -> None:
        self._metrics = metrics
        self._pool = pool
        self._version = version
        self._legacy = legacy

    def collect(self) -> Iterable[Metric]:
        return [metric_of(family) for family in self.families()]

    def text(self) -> bytes:
        """The page in Prometheus' text format."""
        return text_of(self.families())

    def parts(self) -> Iterator[bytes]:
        """The page in parts; the numbers of each are those of when it is made."""
        return parts_of(self.families())

    def families(self) -> Iterator[Family]:
        pool = self._pool()
        yield from self._requests()
        yield from self._deciding()
        yield from self._pools(pool)
        yield from self._flow(pool)
        yield from self._rest(pool)

    def _requests(self) -> Iterator[Family]:
        records = list(self._metrics.records)
        totals: Values = {record.labels: record.requests for record in records}
        yield from self._counter(
            "request_total", "Requests received.", _FULL, totals, ("inference_objective_request_total", 0, 1, 3)
        )
        errors: Values = {(*r.labels, code): count for r in records for code, count in r.errors.items()}
        names = (*_FULL, "error_code")
        yield from self._counter(
            "request_error_total",
            "Requests that ended with an error, by code.",
            names,
            errors,
            ("inference_objective_request_error_total", 0, 1, 4),
        )
        running: Values = {record.labels: record.running for record in records}
        yield from self._gauge(
            "request_running", "Requests that were routed and have not ended.", _FULL, running,
            ("inference_objective_running_requests", 0),
        )  # fmt: skip
        for family in _HISTOGRAMS:
            yield from self._histograms_of(family, records)
        first: Histograms = {
            (*r.labels, flag): h for r in records for flag, h in (("false", r.first), ("true", r.first_streaming))
        }
        yield _histogram(
            f"{PREFIX}request_ttft_seconds", "Seconds to the first byte of the response.", (*_FULL, "streaming"), first
        )

    def _histograms_of(self, family: _OfRecords, records: Sequence[RequestMetrics]) -> Iterator[Family]:
        found: Histograms = {record.labels: family.of(record) for record in records}
        yield _histogram(PREFIX + family.name, family.help, _FULL, found)
        if self._legacy and family.old:
            yield _histogram(family.old, family.help, _MODELS, _merged(found, (0, 1)))

    def _deciding(self) -> Iterator[Family]:
        metrics = self._metrics
        for name, text, histogram, old in (
            (
                "scheduler_e2e_duration_seconds",
                "Seconds that scheduling took.",
                metrics.deciding,
                "inference_extension_",
            ),
            (
                "request_processing_duration_seconds",
                "Seconds that the picker spent on a request.",
                metrics.request_side,
                "",
            ),
            (
                "response_processing_duration_seconds",
                "Seconds that the picker spent on a response.",
                metrics.response_side,
                "",
            ),
        ):
            yield _histogram(PREFIX + name, text, (), {(): histogram})
            if self._legacy and old:
                yield _histogram(old + name, text, (), {(): histogram})
        yield from self._attempts()

    def _attempts(self) -> Iterator[Family]:
        counts: Values = {
            ("failure", model, "", "", ""): count for model, count in self._metrics.failed_attempts.items()
        }
        for endpoint, by_model in self._metrics.attempts.items():
            place = place_of(endpoint)
            counts |= {("success", model, *place): count for model, count in by_model.items()}
        text = "Scheduling attempts, by status and endpoint."
        names = ("status", "target_model_name", "endpoint_name", "namespace", "port")
        yield _counter(f"{PREFIX}scheduler_attempts_total", text, names, counts)
        if self._legacy:
            old = ("status", "target_model_name", "pod_name", "namespace", "port")
            yield _counter("inference_extension_scheduler_attempts_total", text, old, counts)

    def _pools(self, pool: PoolStats) -> Iterator[Family]:
        loads = [endpoint.metrics for endpoint in pool.endpoints if endpoint.metrics.scraped_s >= 0]
        for name, old, values in (
            (
                "kv_cache_utilization",
                "inference_pool_average_kv_cache_utilization",
                [load.kv_cache_usage for load in loads],
            ),
            ("queue_size", "inference_pool_average_queue_size", [load.waiting for load in loads]),
            ("running_requests", "inference_pool_average_running_requests", [load.running for load in loads]),
        ):
            mean: Values = {(pool.name,): fmean(values)} if values else {}
            spread: Values = {(pool.name,): pstdev(values)} if values else {}
            shown = name.replace("_", " ")
            yield _of_pool(f"{PREFIX}average_{name}", f"Mean {shown} of the pool.", ("name",), mean)
            yield _of_pool(f"{PREFIX}std_dev_{name}", f"Standard deviation of {shown} in the pool.", ("name",), spread)
            if self._legacy:
                yield _of_pool(old, f"Mean {shown} of the pool.", ("name",), mean)
        ready: Values = {(pool.name,): len(pool.endpoints)}
        yield _of_pool(f"{PREFIX}ready_endpoints", "Endpoints in the pool that are ready.", ("name",), ready)
        if self._legacy:
            yield _of_pool("inference_pool_ready_pods", "Endpoints in the pool that are ready.", ("name",), ready)

    def _flow(self, pool: PoolStats) -> Iterator[Family]:
        base = f"{PREFIX}flow_control_"
        waits = self._metrics.waits
        ended: Values = {(*by, pool.name): count for by, count in waits.ended.items()}
        yield _counter(
            f"{base}requests_total",
            "Requests that left the flow control queue, by outcome.",
            ("outcome", "priority", "inference_pool"),
            ended,
        )
        seconds: Histograms = {
            (labels[2], labels[3], outcome, pool.name, labels[0], labels[1]): histogram
            for (labels, outcome), histogram in waits.seconds.items()
        }
        names = ("fairness_id", "priority", "outcome", "inference_pool", *_MODELS)
        text = "Seconds that a request spent in the flow control queue."
        yield _histogram(f"{base}request_queue_duration_seconds", text, names, seconds)
        stages: Values = {(pool.name, stage): value for stage, value in pool.saturation.items()}
        yield _gauge(
            f"{base}pool_saturation",
            "Saturation of the pool; 1 is full.",
            ("inference_pool", "stage"),
            stages,
            Aggregation.MAX,
        )
        stale: Values = {("utilization-detector",): pool.stale}
        yield _of_pool(f"{base}stale_endpoints", "Endpoints whose metrics are stale.", ("detector",), stale)
        sizes: Values = {(str(priority), pool.name): count for priority, count, _ in pool.waiting}
        weights: Values = {(str(priority), pool.name): size for priority, _, size in pool.waiting}
        yield _gauge(f"{base}queue_size", "Requests in the flow control queue.", ("priority", "inference_pool"), sizes)
        yield _gauge(
            f"{base}queue_bytes",
            "Bytes of the requests in the flow control queue.",
            ("priority", "inference_pool"),
            weights,
        )
        for at, what in enumerate(("requests", "bytes")):
            text = f"Queued {what} as a share of their limit."
            whole: Values = {(pool.name,): pool.queues[""][at]} if pool.queues else {}
            parts: Values = {(name, pool.name): shares[at] for name, shares in pool.queues.items() if name}
            yield _gauge(
                f"{base}global_capacity_utilization_{what}", text, ("inference_pool",), whole, Aggregation.MEAN
            )
            yield _gauge(
                f"{base}capacity_utilization_{what}", text, ("priority", "inference_pool"), parts, Aggregation.MEAN
            )

    def _prefix(self, prefix: PrefixIndexStats) -> Iterator[Family]:
        size: Values = {(): prefix.blocks}
        shown: tuple[tuple[str, str, Histogram], ...] = (
            (
                "prefix_indexer_hit_ratio",
                "Share of a prompt that is in the prefix cache of its endpoint.",
                prefix.hit_ratios,
            ),
            (
                "prefix_indexer_hit_bytes",
                "Bytes of a prompt that are in the prefix cache of its endpoint.",
                prefix.hit_bytes,
            ),
        )
        for prefixed in (PREFIX, "inference_extension_") if self._legacy else (PREFIX,):
            yield _gauge(f"{prefixed}prefix_indexer_size", "Blocks in the prefix index.", (), size, Aggregation.MAX)
            for name, text, histogram in shown:
                yield _histogram(f"{prefixed}{name}", text, (), {(): histogram})

    def _durations(self, pool: PoolStats) -> Iterator[Family]:
        names = ("extension_point", "plugin_type", "plugin_name")
        text = "Seconds that a plugin took for a request, while the page is scraped."
        found: Histograms = dict(pool.durations.items())
        for prefixed in (PREFIX, "inference_extension_") if self._legacy else (PREFIX,):
            yield _histogram(f"{prefixed}plugin_duration_seconds", text, names, found)

    def _rest(self, pool: PoolStats) -> Iterator[Family]:
        metrics = self._metrics
        rewrites: Values = dict(metrics.rewrites.items())
        names = ("model_rewrite_name", "model_name", "target_model")
        yield from self._counter(
            "model_rewrite_decisions_total", "Requests whose model was rewritten.", names, rewrites,
            ("inference_extension_model_rewrite_decisions_total", 0, 1, 2),
        )  # fmt: skip
        splits: Values = dict(metrics.disaggregated.items())
        text = "Disaggregation decisions, by type."
        yield _counter(f"{PREFIX}disagg_decision_total", text, ("model_name", "decision_type"), splits)
        yield _counter(f"{PREFIX}pd_decision_total", text, ("model_name", "decision_type"), splits)
        if pool.peers is not None:
            yield _of_pool(f"{PREFIX}peers", "Other pickers of the pool that this one hears.", (), {(): pool.peers})
        polls: Values = {("metrics-data-source",): pool.poll_errors}
        extracts: Values = {("metrics-data-source", "core-metrics-extractor"): pool.extract_errors}
        yield _counter(f"{PREFIX}datalayer_poll_errors_total", "Scrapes that failed.", ("source_type",), polls)
        text = "Scraped pages without the expected metrics."
        yield _counter(f"{PREFIX}datalayer_extract_errors_total", text, ("source_type", "extractor_type"), extracts)
        faults: Values = {(plugin,): count for plugin, count in pool.faults.items()}
        text = "Calls of a plugin that raised or broke its contract, in shadow profiles and listeners, too."
        yield _counter(f"{PREFIX}plugin_faults_total", text, ("plugin_name",), faults)
        yield from self._durations(pool)
        if pool.prefix is not None:
            yield from self._prefix(pool.prefix)
        opened: Values = {(): metrics.streams_open}
        yield _gauge(f"{PREFIX}extproc_streams_inflight", "Open ext_proc streams.", (), opened)
        streams: Values = {(code,): count for code, count in metrics.streams_by_code.items()}
        yield _counter(f"{PREFIX}extproc_streams_total", "Ended ext_proc streams, by gRPC code.", ("code",), streams)
        yield _histogram(
            f"{PREFIX}extproc_stream_duration_seconds",
            "Seconds that ext_proc streams lasted.",
            (),
            {(): metrics.streams},
        )
        info: Values = {("", self._version): 1}
        yield _of_pool(f"{PREFIX}info", "Build of the picker.", ("commit", "build_ref"), info)

    def _counter(
        self, name: str, text: str, labels: Sequence[str], values: Values, old: tuple[str, *tuple[int, ...]]
    ) -> Iterator[Family]:
        yield _counter(PREFIX + name, text, labels, values)
        if self._legacy:
            yield _counter(old[0], text, [labels[at] for at in old[1:]], _summed(values, old[1:]))

    def _gauge(
        self, name: str, text: str, labels: Sequence[str], values: Values, old: tuple[str, *tuple[int, ...]]
    ) -> Iterator[Family]:
        yield _gauge(PREFIX + name, text, labels, values)
        if self._legacy:
            yield _gauge(old[0], text, [labels[at] for at in old[1:]], _summed(values, old[1:]))


def _counter(name: str, text: str, labels: Sequence[str], values: Values) -> Family:
    return Family(MetricType.COUNTER, name, text, labels, values)


def _gauge(
    name: str, text: str, labels: Sequence[str], values: Values, aggregation: Aggregation = Aggregation.SUM
) -> Family:
    return Family(MetricType.GAUGE, name, text, labels, values, aggregation)


def _of_pool(name: str, text: str, labels: Sequence[str], values: Values) -> Family:
    """A gauge of what one process reads for all workers."""
    return _gauge(name, text, labels, values, Aggregation.FIRST)


def _histogram(name: str, text: str, labels: Sequence[str], found: Histograms) -> Family:
    """Sets of labels that nothing was counted for are left out, as for any other series."""
    counted = {key: histogram for key, histogram in found.items() if not labels or any(histogram.counts)}
    return Family(MetricType.HISTOGRAM, name, text, labels, counted)


def _summed(values: Values, kept: Sequence[int]) -> Values:
    found: Values = {}
    for key, value in values.items():
        short = tuple(key[at] for at in kept)
        found[short] = found.get(short, 0) + value
    return found


def _merged(histograms: Histograms, kept: Sequence[int]) -> Histograms:
    found: Histograms = {}
    for key, histogram in histograms.items():
        short = tuple(key[at] for at in kept)
        if short not in found:
            found[short] = Histogram(histogram.bounds)
        found[short].take(histogram)
    return found


def place_of(endpoint: Endpoint) -> tuple[str, str, str]:
    """Name, namespace and port of what an endpoint is of."""
    namespace, _, rest = endpoint.name.rpartition("/")
    port = endpoint.address.rpartition(":")[2]
    return rest.removesuffix(f":{port}"), namespace, port
