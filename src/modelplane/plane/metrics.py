"""The plane's metrics page at `/metrics` of its API, where API servers have theirs: to clients with the token.

the fleet    as every host shows it
requests     that replicas got, from Envoy's access log
tokens       that services read and wrote, where a fleet router reads responses: where callers have keys
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final, Protocol

from aiohttp import web

from modelplane.api.errors import NotFoundError
from modelplane.api.objects import GROUP
from modelplane.plane.request_counter import REQUESTS, RequestCounter
from modelplane.reconcile.metrics_page import FLEET_PAGE_METRICS, FleetPage, metrics_page
from modelplane.reconcile.store import Store, StoreChange
from modelplane.views.inputs import FleetManifests
from modelplane.views.metric_families import Labels, MetricSpec, SampleFamily

METRICS_PATH: Final = "/metrics"
TOKENS: Final = MetricSpec(
    name="modelplane_tokens",
    type="counter",
    labels=("namespace", "service", "direction"),
    help="Tokens that a service read (input) and wrote (output), of callers with keys at a fleet router.",
)
_SHOWN: Final = {(GROUP, kind) for kind in ("InferenceCluster", "ModelReplica", "ModelCache", "ModelDeployment")}
PLANE_METRICS: Final = (*FLEET_PAGE_METRICS, REQUESTS, TOKENS)


class TokenSource(Protocol):
    def tokens(self) -> Iterable[tuple[str, str, float]]:
        """Service, direction and tokens."""


class PlaneMetrics:
    def __init__(self, store: Store, page: FleetPage, requests: RequestCounter, tokens: TokenSource) -> None:
        self._store = store
        self._page = page
        self._requests = requests
        self._tokens = tokens
        self._revision = 0
        store.subscribe(self._on_change)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET" or request.path != METRICS_PATH:
            raise NotFoundError(f"{request.method} {request.path} is not served; GET {METRICS_PATH} is")
        accept = request.headers.get("Accept", "")
        more = (self._requests.family(), tokens_family(self._tokens.tokens()))
        revision, fleet = self._revision, None if self._page.has(self._revision) else self._fleet()
        write = partial(self._page.families, fleet, more, revision=revision)
        page = await asyncio.to_thread(lambda: metrics_page(write(), accept))
        return web.Response(body=page.content, headers={"Content-Type": page.content_type})

    def _on_change(self, change: StoreChange) -> None:
        self._revision += (change.ref.group, change.ref.kind) in _SHOWN

    def _fleet(self) -> FleetManifests:
        """Read here and not in the thread: the store belongs to the event loop."""
        return FleetManifests(
            clusters=self._store.list(GROUP, "InferenceCluster"),
            replicas=self._store.list(GROUP, "ModelReplica"),
            caches=self._store.list(GROUP, "ModelCache"),
            deployments=self._store.list(GROUP, "ModelDeployment"),
        )


def tokens_family(found: Iterable[tuple[str, str, float]]) -> SampleFamily:
    counts: Counter[Labels] = Counter()
    for service, direction, tokens in found:
        namespace, _, name = service.partition("/")
        counts[namespace, name, direction] += int(tokens)
    return SampleFamily(TOKENS, dict(counts))
