"""What a picker's main process and its workers send each other, over one socket for each worker.

to a worker      first a WorkerSetup, then ToWorker whenever there is news
from a worker    a FromWorker every 10 ms where something changed, and every second
"""

from typing import Generic

import msgspec

from modelplane.epp.datalayer.relay import P, PoolUpdate
from modelplane.epp.datalayer.shared_state import Load, SentPrompt
from modelplane.epp.flowcontrol import WorkerShare
from modelplane.epp.server.observe.worker_pages import FamilyMessage
from modelplane.epp.transport.tls import ServerIdentity

MOST_FRAME = 256 << 20
"""Both ends are ours: only a defect sends more."""


class TracingSetup(msgspec.Struct, frozen=True):
    share: float
    endpoint: str = ""


class WorkerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker serves."""

    share: WorkerShare
    config: bytes
    config_source: str
    identity: ServerIdentity | None
    body_bytes: int
    held_bytes: int
    streams: int
    drain_s: float
    pool: str = ""
    has_policies: bool = False
    subscribes: bool = True
    """Whether it calls engines itself: for KV events and tokens, where the configuration needs them."""
    legacy_metrics: bool = False
    decision_log: str = ""
    decision_log_share: float = 0.0
    tracing: TracingSetup | None = None
    log_level: int = 20
    log_json: bool = False


class ToWorker(msgspec.Struct, Generic[P], frozen=True, omit_defaults=True):
    pool: PoolUpdate[P] | None = None
    config: bytes | None = None
    identity: ServerIdentity | None = None
    wants_page: bool = False
    """Send the page of metrics."""
    releases_connection: bool = False
    """End one connection once its calls have ended, so that the proxy opens another, for another worker."""


class FromWorker(msgspec.Struct, Generic[P], frozen=True, omit_defaults=True):
    problem: str = ""
    """Why it is not ready; empty: it is."""
    adopted: int = 0
    """Connections that it was given, ever."""
    connections: int = 0
    """Those that are open, and take new calls."""
    loads: dict[str, Load] = {}
    prompts: tuple[P, ...] = ()
    family: FamilyMessage | None = None
    """A part of its page."""
    is_page_end: bool = False


encode = msgspec.msgpack.Encoder().encode
setup_decoder = msgspec.msgpack.Decoder(WorkerSetup)
to_worker_decoder = msgspec.msgpack.Decoder(ToWorker[SentPrompt])
from_worker_decoder = msgspec.msgpack.Decoder(FromWorker[msgspec.Raw])
