"""Server-sent events: the summary and one view, once at first and again whenever they are another.

- `summary`: the figures of the header
- `view`: what the view's own address returns
- `gone`: the object of the view does not exist, or not any more
- `problem`: why what is shown may be old; empty: it is not
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from aiohttp import web

from modelplane.api.errors import ModelplaneError
from modelplane.web.guard import HEADERS
from modelplane.web.live import LiveSnapshot, SnapshotWatch
from modelplane.web.pages import VIEWS, to_json, view_json
from modelplane.web.paging import ViewQuery
from modelplane.web.snapshot import DashboardSnapshot

_Events = Callable[[DashboardSnapshot], tuple[bytes, ...]]
_BEAT_S = 15.0
"""A comment this often keeps what is between from closing the stream, and finds out who left."""


async def send_events(request: web.Request, live: LiveSnapshot, view: str, query: ViewQuery) -> web.StreamResponse:
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
    async with live.watch() as watch:
        await response.prepare(request)
        with suppress(ConnectionResetError):
            await _send(response, live, watch, partial(events_of, view, query=query))
    return response


async def _send(response: web.StreamResponse, live: LiveSnapshot, watch: SnapshotWatch, events: _Events) -> None:
    """Until the reader has left."""
    sent: tuple[bytes, ...] = (_problem(""),)
    while True:
        found = (*events(watch.newest), _problem(live.problem()))
        for event in found:
            if event not in sent:
                await response.write(event)
        sent = found
        if not await watch.next(_BEAT_S):
            await response.write(b": beat\n\n")


def events_of(view: str, snapshot: DashboardSnapshot, *, query: ViewQuery) -> tuple[bytes, ...]:
    summary = _event("summary", to_json(VIEWS["summary"](snapshot, query)))
    try:
        return summary, _event("view", view_json(view, snapshot, query))
    except ModelplaneError as error:
        return summary, _event("gone", to_json({"error": str(error)}))


def _problem(text: str) -> bytes:
    return _event("problem", to_json({"problem": text}))


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
