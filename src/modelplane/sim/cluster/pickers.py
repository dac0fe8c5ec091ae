"""Runs the endpoint picker of an InferencePool in this process.

A pod whose container `picker`, or `main` as KServe has it, names a pool runs our endpoint picker, with the
configuration that the pod mounts or is given. It discovers the pool's pods from the cluster's objects, with their
loopback addresses, scrapes the engines' metrics and serves Envoy without TLS, since everything is on loopback. Those
that name the same peers share what they know, as in a cluster; there is no name to resolve here.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from modelplane.api.objects import Manifest, items_at, labels_of, name_of, namespace_of, text_at, uid_of
from modelplane.epp.datalayer.discovery.datastore import Datastore, DiscoveredEndpoint
from modelplane.epp.datalayer.endpoints import Endpoints, EndpointsCallback
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.sim.cluster.controller import ClusterStore, changed
from modelplane.sim.cluster.inference_pools import KIND, POOL_GROUPS, ready_pods
from modelplane.sim.cluster.objects import annotation
from modelplane.sim.cluster.phases import Running
from modelplane.sim.cluster.services import is_serving
from modelplane.sim.cluster.settings import LISTENS_ON

if TYPE_CHECKING:
    from modelplane.epp.datalayer.peers import PeerAddress, PeerOptions
    from modelplane.epp.server.observe.tracing import Tracing
    from modelplane.epp.server.runner import PickerRunner

_CONTAINERS = ("picker", "main")
_HOST = "127.0.0.1"
_GRPC_PORT = 9002
_DRAIN_S = 1.0
_FIND_PEERS_S = 0.5


def picker_container(pod: Manifest) -> Mapping[str, object] | None:
    """The container that picks for a pool; None in other pods."""
    named = (entry for entry in items_at(pod, "spec", "containers") if entry.get("name") in _CONTAINERS)
    return next((entry for entry in named if "pool-name" in _options(entry)), None)


def picker_port(container: Mapping[str, object]) -> int:
    given = _options(container).get("grpc-port", "")
    return int(given) if given.isdecimal() else _GRPC_PORT


class _Program(NamedTuple):
    runner: "PickerRunner"
    store: ClusterStore
    peers: str
    """The name by which it finds others; empty: none."""


class Pickers:
    """The running endpoint pickers."""

    def __init__(self) -> None:
        self._programs: dict[Running, _Program] = {}

    async def start(self, pod: Manifest, store: ClusterStore) -> Running:
        """Return once it serves. InputError where its configuration cannot be read."""
        # Most planes have no pool: they do not import the picker.
        from modelplane.epp.config.config import load
        from modelplane.epp.server.runner import PickerRunner, RunnerOptions
        from modelplane.epp.server.server import PickerSettings
        from modelplane.epp.server.third_party import full_registry

        options = _options(picker_container(pod) or {})
        namespace = options.get("pool-namespace", namespace_of(pod))
        source = PoolPods(store, namespace, options.get("pool-name", ""))
        text = options.get("config-text") or _mounted(pod, options.get("config-file", ""), store)
        config = load(text, "the configuration of the picker", full_registry())
        settings = PickerSettings(host=_HOST, port=0, health_port=-1, drain_s=_DRAIN_S)
        named = options.get("peers", "")
        peers = self._peers(store, named) if named else None
        pool, tracing = options.get("pool-name", ""), _tracing(os.environ)
        runner = PickerRunner(
            source, config, settings, RunnerOptions(metrics_port=-1, pool=pool, peers=peers, tracing=tracing)
        )
        try:
            await runner.start()
        except BaseException:
            await runner.stop()
            raise
        running = Running(_HOST, runner.server.port)
        self._programs[running] = _Program(runner, store, named)
        return running

    async def stop(self, running: Running) -> None:
        program = self._programs.pop(running, None)
        if program is not None:
            await program.runner.stop()

    def _peers(self, store: ClusterStore, named: str) -> "PeerOptions":
        from modelplane.epp.datalayer.peers import PeerOptions

        async def find() -> "set[PeerAddress]":
            same = (each.runner for each in self._programs.values() if (each.store, each.peers) == (store, named))
            return {(_HOST, runner.peers.port) for runner in same if runner.peers is not None}

        return PeerOptions(find, host=_HOST, find_s=_FIND_PEERS_S)


def _tracing(environment: Mapping[str, str]) -> "Tracing | None":
    """Requests that the gateway traces, where OpenTelemetry's variables say where spans go."""
    from modelplane.epp.server.observe.request_spans import ENDPOINTS
    from modelplane.epp.server.observe.tracing import Tracing, otlp_provider

    return Tracing(otlp_provider(), share=0.0) if any(environment.get(name) for name in ENDPOINTS) else None


def _mounted(pod: Manifest, path: str, store: ClusterStore) -> str:
    """A file from one of the pod's ConfigMap volumes."""
    for volume in items_at(pod, "spec", "volumes"):
        name = text_at(volume, "configMap", "name")
        found = store.get(ObjectRef("", "ConfigMap", namespace_of(pod), name)) if name else None
        text = text_at(found, "data", path.rpartition("/")[2]) if found is not None else ""
        if text:
            return text
    return ""


class PoolPods:
    """The endpoints of a pool from the cluster's objects: an `EndpointSource`."""

    def __init__(self, store: ClusterStore, namespace: str, pool: str) -> None:
        self._store = store
        self._namespace = namespace
        self._pool = pool
        self._roster = Datastore()
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def current(self) -> Endpoints:
        return self._roster.current

    @property
    def known(self) -> bool:
        return self._unsubscribe is not None

    def on_change(self, listener: EndpointsCallback, /) -> None:
        self._roster.on_change(listener)

    async def start(self) -> None:
        self._unsubscribe = self._store.subscribe(self._on_change)
        self._sync()

    async def stop(self) -> None:
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()

    def _on_change(self, change: StoreChange) -> None:
        ref = change.ref
        ours = ref.namespace == self._namespace and (ref.kind == "Pod" or (ref.kind, ref.name) == (KIND, self._pool))
        if ours and changed(change, _facts):
            self._sync()

    def _sync(self) -> None:
        self._roster.replace(self._found())

    def _found(self) -> Iterator[DiscoveredEndpoint]:
        refs = (ObjectRef(group, KIND, self._namespace, self._pool) for group in POOL_GROUPS)
        pool = next(filter(None, map(self._store.get, refs)), None)
        pods = self._store.list("", "Pod", namespace=self._namespace) if pool is not None else ()
        for pod in ready_pods(pool or {}, pods):
            address = annotation(pod, LISTENS_ON).partition("=")[2]
            if address:
                yield DiscoveredEndpoint(f"{self._namespace}/{name_of(pod)}", address, uid_of(pod), labels_of(pod))


def _facts(item: Manifest) -> object:
    """What pool membership depends on, of a pod or of the pool."""
    return item.get("spec"), labels_of(item), annotation(item, LISTENS_ON), is_serving(item)


def _options(container: Mapping[str, object]) -> dict[str, str]:
    """Its flags, `--name=value` or `--name value`."""
    given = [*_texts(container.get("command")), *_texts(container.get("args"))]
    options: dict[str, str] = {}
    for number, word in enumerate(given):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-"):
            options[name] = value if equals else next(iter(given[number + 1 : number + 2]), "")
    return options


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []
