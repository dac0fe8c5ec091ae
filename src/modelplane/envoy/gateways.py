"""Envoy's configuration kept as text, one gateway at a time.

A fleet has a thousand cluster gateways, of which few change at a time; the others are not rendered again. The JSON of
a gateway's resources is kept, not their objects. A gateway with many routes has a Renderer of its own, so that only
changed routes are rendered.
"""

from dataclasses import dataclass

from modelplane.api.errors import InputError
from modelplane.envoy.config import EnvoyConfig, SocketAddress, XdsResource
from modelplane.envoy.files import text_of
from modelplane.envoy.render import Renderer, render
from modelplane.envoy.tracing import CLUSTER, TraceExport, export_cluster, with_tracing
from modelplane.envoy.view import GatewayProblem, GatewayView

_MANY_ROUTES = 64


@dataclass(frozen=True, slots=True)
class _Written:
    """The resources of one gateway."""

    address: SocketAddress
    listeners: dict[str, bytes]
    virtual_hosts: dict[str, bytes]
    clusters: dict[str, bytes]
    problems: tuple[GatewayProblem, ...]


class GatewayConfigs:
    """The current gateways, and their joint configuration."""

    def __init__(self, tracing: TraceExport | None = None) -> None:
        """`tracing`: where the gateways' spans go; None: they make none."""
        self._tracing = tracing
        self._written: dict[str, _Written] = {}
        self._owners: dict[SocketAddress, str] = {}
        self._renderers: dict[str, Renderer] = {}

    def put(self, view: GatewayView) -> None:
        """Add or replace a gateway. InputError where its address belongs to another."""
        address = (view.host, view.port)
        owner = self._owners.get(address, view.name)
        if owner != view.name:
            raise InputError(f"gateway {view.name}: port: {view.host}:{view.port} belongs to gateway {owner}")
        config = self._rendered(view)
        self._release(view.name)
        self._owners[address] = view.name
        before = self._written.get(view.name)
        known = before.clusters if before is not None else {}
        clusters = {name: _same(known.get(name), text_of(each)) for name, each in config.clusters.items()}
        listeners = {name: text_of(self._traced(each)) for name, each in config.listeners.items()}
        hosts = {name: text_of(each) for name, each in config.virtual_hosts.items()}
        self._written[view.name] = _Written(address, listeners, hosts, clusters, config.problems)

    def drop(self, name: str) -> None:
        """Remove a gateway, if it exists."""
        self._release(name)
        self._written.pop(name, None)
        self._renderers.pop(name, None)

    def config(self) -> EnvoyConfig:
        """Everything, in the order of names."""
        found = [(name, self._written[name]) for name in sorted(self._written)]
        clusters = {name: text for _, each in found for name, text in each.clusters.items()}
        if self._tracing is not None:
            clusters[CLUSTER] = text_of(export_cluster(self._tracing))
        return EnvoyConfig(
            {name: text for _, each in found for name, text in each.listeners.items()},
            {name: clusters[name] for name in sorted(clusters)},
            {name: text for _, each in found for name, text in each.virtual_hosts.items()},
            tuple(problem for _, each in found for problem in each.problems),
            {name: each.address for name, each in found},
        )

    def _traced(self, listener: XdsResource) -> XdsResource:
        if self._tracing is None or isinstance(listener, bytes):
            return listener
        return with_tracing(listener, self._tracing)

    def _rendered(self, view: GatewayView) -> EnvoyConfig:
        if len(view.routes) < _MANY_ROUTES:
            self._renderers.pop(view.name, None)
            return render([view])
        return self._renderers.setdefault(view.name, Renderer()).render([view])

    def _release(self, name: str) -> None:
        before = self._written.get(name)
        if before is not None:
            self._owners.pop(before.address, None)


def _same(known: bytes | None, text: bytes) -> bytes:
    """Equal texts are kept once: what Envoy runs holds the one from before."""
    return known if known == text else text
