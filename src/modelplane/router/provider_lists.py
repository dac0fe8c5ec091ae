"""Lists of providers' models, fetched in threads and cached: a composer never waits.

Requests go out by the checked connections of `hydrate`, so the outbound rule holds for every address, and a credential
never leaves for another origin. Credentials are kept in memory while composers use them; they are in no log and no
message.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from modelplane.api.errors import ModelplaneError
from modelplane.api.outbound import OutboundRule
from modelplane.compose.provider_models import FetchedList, ListRequest
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.transport import TransferTimeouts, WebClient
from modelplane.reconcile.clock import Clock
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

REFRESH_S: Final = 300.0
RETRY_S: Final = 30.0
FORGET_S: Final = 1_800.0
"""A request that nobody makes any more is forgotten after this, with its credential."""
_THREADS: Final = 4
_MOST: Final = 4_096
_LARGEST: Final = 4 << 20
_LONGEST_S: Final = 30.0
_TIMEOUTS: Final = TransferTimeouts(connect_s=5.0, read_s=10.0)
_LOG = logging.getLogger(__name__)


class _ListedModel(msgspec.Struct):
    id: str


class _ProviderList(msgspec.Struct):
    data: list[_ListedModel]


@dataclass(slots=True)
class _Entry:
    used_s: float
    due_s: float
    fetched: FetchedList | None = None
    pending: bool = False


class ProviderLists:
    """Callable by composers (`ComposeRequest.list_models`). An old list counts until there is a new one."""

    def __init__(self, clock: Clock, fetch: Callable[[ListRequest], tuple[str, ...]] | None = None) -> None:
        self._clock = clock
        self._fetch = fetch or fetch_models
        self._known: OrderedDict[ListRequest, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="provider-lists")

    def __call__(self, request: ListRequest) -> FetchedList | None:
        with self._lock:
            now = self._clock.monotonic()
            entry = self._known.setdefault(request, _Entry(now, now))
            entry.used_s = now
            self._known.move_to_end(request)
            self._forget(now)
            if entry.due_s <= now and not entry.pending:
                entry.pending = True
                self._threads.submit(self._run, request, entry)
            return entry.fetched

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _forget(self, now: float) -> None:
        """The least recently used come first."""
        while len(self._known) > _MOST or next(iter(self._known.values())).used_s < now - FORGET_S:
            self._known.popitem(last=False)

    def _run(self, request: ListRequest, entry: _Entry) -> None:
        try:
            found = FetchedList(self._fetch(request))
        except (HydrateError, ModelplaneError, msgspec.DecodeError, RecursionError, OSError, ValueError) as error:
            _LOG.info("the models at %s are not known: %s", request.url, error, extra=because(LogReason.MODELS_UNKNOWN))
            found = FetchedList(unreached=str(error) if isinstance(error.__cause__, OSError) else "")
        with self._lock:
            entry.pending = False
            entry.due_s = self._clock.monotonic() + (REFRESH_S if found.names is not None else RETRY_S)
            if found.names is None and entry.fetched is not None:
                found = replace(found, names=entry.fetched.names)
            entry.fetched = found


def fetch_models(request: ListRequest) -> tuple[str, ...]:
    """The names of a provider's list. Errors of the connection, and msgspec.DecodeError for what is no list."""
    headers = {"Accept": "application/json", **({request.header: request.value} if request.header else {})}
    if request.header.lower() == "x-api-key":
        headers["anthropic-version"] = "2023-06-01"
    client = WebClient(OutboundRule.read(request.allow), _TIMEOUTS)
    # A provider that sends a byte now and then is never silent.
    deadline = threading.Timer(_LONGEST_S, client.abort)
    deadline.daemon = True
    deadline.start()
    try:
        body = client.get(request.url, headers, secret=request.header).small(_LARGEST)
    finally:
        deadline.cancel()
        client.abort()
    return tuple(each.id for each in msgspec.json.decode(body, type=_ProviderList).data)
