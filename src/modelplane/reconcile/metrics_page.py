"""A metrics page of a host, in the format that the reader accepts: OpenMetrics, else Prometheus' text format.

Families are values of `views`; prometheus_client writes them, together with what the host counts in its registry.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from math import inf
from threading import Lock
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from modelplane.api.version import __version__
from modelplane.reconcile.certificate_expiry import CERTIFICATES, certificate_expiry
from modelplane.views.fleet_metrics import FLEET_METRICS, fleet_metrics
from modelplane.views.inputs import FleetManifests
from modelplane.views.metric_families import SERIES_LEFT_OUT, MetricSpec, SampleFamily, SecondsHistogram, bounded
from modelplane.views.replica_durations import DURATION_METRICS, ReplicaDurations

BUILD: Final = MetricSpec(
    name="modelplane_build", type="info", labels=("version",), help="The version of the host. It is always there."
)
_BUILD: Final = SampleFamily(BUILD, {(__version__,): 1})
FLEET_PAGE_METRICS: Final = (BUILD, *FLEET_METRICS, *DURATION_METRICS, CERTIFICATES, SERIES_LEFT_OUT)
"""What the page of a fleet has on every host."""


class Exposition(NamedTuple):
    content: bytes
    content_type: str


def metrics_page(
    families: Iterable[SampleFamily], accept: str = "", registry: CollectorRegistry | None = None
) -> Exposition:
    """`accept` is the reader's Accept header."""
    encode, content_type = choose_encoder(accept)
    return Exposition(encode(_Together(registry, tuple(families))), content_type)


class FleetPage:
    """The page of a host that knows a fleet. It may be written in any thread: that takes a while for a large fleet.

    What is computed from the objects is kept until one of them changes: a scrape of a fleet in which nothing happens
    costs no more than writing it down. `revision` is the host's word for that: equal revisions have equal objects.
    """

    def __init__(self, began_s: float, *, serving: bytes = b"") -> None:
        """`began_s` is when the host began; `serving` is its certificate."""
        self._serving = serving
        self._durations = ReplicaDurations(began_s)
        self._lock = Lock()
        self._kept: tuple[SampleFamily, ...] = ()
        self._revision: object = None

    def has(self, revision: object) -> bool:
        """Whether the families of this revision are kept. They need no inputs."""
        return revision is not None and revision == self._revision

    def families(
        self, inputs: FleetManifests | None, more: Iterable[SampleFamily] = (), *, revision: object = None
    ) -> tuple[SampleFamily, ...]:
        """None for `inputs`: what is kept of this revision; else the host does not know its fleet, or not yet."""
        with self._lock:
            if not self.has(revision) and inputs is not None:
                self._kept, self._revision = self._computed(inputs), revision
            elif inputs is None and not self.has(revision):
                return (_BUILD, certificate_expiry(self._serving, ()), *more)
            return bounded((_BUILD, *self._kept, *more))

    def _computed(self, inputs: FleetManifests) -> tuple[SampleFamily, ...]:
        self._durations.observe(inputs.replicas)
        certificates = certificate_expiry(self._serving, inputs.clusters)
        return (*fleet_metrics(inputs), *self._durations.families(), certificates)


class _Together(CollectorRegistry):
    """What a registry collects, and families beside it."""

    def __init__(self, registry: CollectorRegistry | None, families: tuple[SampleFamily, ...]) -> None:
        super().__init__()
        self._beside = registry
        self._families = families

    def collect(self) -> Iterator[Metric]:
        counted = self._beside.collect() if self._beside is not None else ()
        return chain(counted, map(_metric, self._families))


def _metric(family: SampleFamily) -> Metric:
    spec = family.spec
    made = Metric(spec.name, spec.help, spec.type, spec.unit)
    for values, value in family.values.items():
        labels = dict(zip(spec.labels, values, strict=True))
        if isinstance(value, SecondsHistogram):
            _add_histogram(made, labels, value)
        else:
            made.add_sample(spec.shown_name, labels, value)
    return made


def _add_histogram(made: Metric, labels: dict[str, str], value: SecondsHistogram) -> None:
    bounds = (*value.bounds, inf)
    for bound, count in zip(bounds, accumulate(value.counts), strict=True):
        made.add_sample(f"{made.name}_bucket", {**labels, "le": "+Inf" if bound == inf else str(bound)}, count)
    made.add_sample(f"{made.name}_count", labels, sum(value.counts))
    made.add_sample(f"{made.name}_sum", labels, value.total_s)
