"""Prefill and decode pods of one replica, and how a decode pod finds the prefill engines beside it.

The endpoint picker names the prefill pod by its address, on the cluster's network or on loopback. When it names none,
the decode pod prefills itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from modelplane.api.labels import SERVING
from modelplane.api.objects import Manifest, labels_of, namespace_of, text_at
from modelplane.sim.engine.sidecar import Prefillers

PHASE = "llm-d.ai/role"
PREFILL, DECODE = "prefill", "decode"
_SAME = (SERVING, "app.kubernetes.io/name")
"""Labels whose values pods of one replica share: of what we render, and of what KServe does."""


@dataclass(frozen=True, slots=True)
class Running:
    """The loopback address of a started engine."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class _Peer:
    cluster: str
    namespace: str
    ip: str
    labels: dict[str, str]


def phase_of(pod: Manifest) -> str:
    """`prefill`, `decode`, or neither."""
    return labels_of(pod).get(PHASE, "")


class Peers:
    """The running prefill engines, by replica."""

    def __init__(self) -> None:
        self._prefill: dict[Running, _Peer] = {}

    def join(self, running: Running, cluster: str, pod: Manifest) -> None:
        if phase_of(pod) == PREFILL:
            ip = text_at(pod, "status", "podIP")
            self._prefill[running] = _Peer(cluster, namespace_of(pod), ip, labels_of(pod))

    def leave(self, running: Running) -> None:
        self._prefill.pop(running, None)

    def prefillers(self, cluster: str, pod: Manifest) -> Prefillers:
        """How the sidecar of a decode pod finds the prefill engines of its own replica."""
        namespace, labels = namespace_of(pod), labels_of(pod)
        shared = {name: labels[name] for name in _SAME if name in labels}

        def find(named: str) -> str | None:
            beside = self._beside(cluster, namespace, shared) if named else ()
            called = (running for running, peer in beside if _is_called(named, running, peer))
            chosen = next(called, None)
            return None if chosen is None else f"{chosen.host}:{chosen.port}"

        return find

    def _beside(self, cluster: str, namespace: str, shared: dict[str, str]) -> Iterator[tuple[Running, _Peer]]:
        for running, peer in self._prefill.items():
            same = shared.items() <= peer.labels.items()
            if shared and same and (peer.cluster, peer.namespace) == (cluster, namespace):
                yield running, peer


def _is_called(named: str, running: Running, peer: _Peer) -> bool:
    return named == f"{running.host}:{running.port}" or named.rpartition(":")[0].strip("[]") == peer.ip
