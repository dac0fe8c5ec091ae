"""Counts the requests that replicas got, by deployment and class of status, on their way to the traffic meter.

Envoy's access log is read once, so whoever counts stands between the log and its reader. A replica is asked for its
deployment when it is first seen: when it is gone, its requests still count where they belong.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from modelplane.api.objects import GROUP, text_at
from modelplane.envoy.access_log import ServedRequest
from modelplane.plane.traffic_meter import RequestSource
from modelplane.reconcile.store import ObjectRef, Store
from modelplane.views.metric_families import Labels, MetricSpec, SampleFamily

REQUESTS: Final = MetricSpec(
    name="modelplane_requests",
    type="counter",
    labels=("namespace", "deployment", "status"),
    help="Requests that replicas got, by the class of the response: 2xx, 4xx, 5xx, or none where none came.",
)
_MOST_REPLICAS: Final = 10_000
_HUNDRED: Final = 100


class RequestCounter:
    def __init__(self, store: Store, source: RequestSource) -> None:
        self._store = store
        self._source = source
        self._owners: dict[str, tuple[str, str]] = {}
        self._counts: Counter[Labels] = Counter()

    def read(self) -> Iterator[ServedRequest]:
        """The requests since the last call; they are counted as they pass."""
        for request in self._source.read():
            self._counts[*self._owner(request.replica), _status(request.status)] += 1
            yield request

    def family(self) -> SampleFamily:
        return SampleFamily(REQUESTS, dict(self._counts))

    def _owner(self, replica: str) -> tuple[str, str]:
        known = self._owners.get(replica)
        if known is None:
            namespace, _, name = replica.partition("/")
            found = self._store.get(ObjectRef(GROUP, "ModelReplica", namespace, name)) or {}
            known = namespace, text_at(found, "spec", "deployment", "name")
            if len(self._owners) >= _MOST_REPLICAS:
                self._owners.clear()
            self._owners[replica] = known
        return known


def _status(code: int) -> str:
    return f"{code // _HUNDRED}xx" if code else "none"
