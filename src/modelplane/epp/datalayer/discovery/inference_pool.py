"""The pods of an InferencePool, over the Kubernetes API.

Two watches: one on the InferencePool, one on the pods that its selector matches. When the selector changes, the old
pods are kept until the new ones have been listed. `problem` reports a pool that does not exist; a deleted pool is
empty. While the API is unavailable, the last state is kept.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from modelplane.epp.datalayer.discovery.datastore import Datastore
from modelplane.epp.datalayer.discovery.pods import PODS, ServingPod, endpoints_of, pod_of
from modelplane.epp.datalayer.tasks import cancel_all
from modelplane.kube import GroupVersionResource, Informer, InformerEvent, KubeClient, Query
from modelplane.kube.client import Raw

INFERENCE_POOLS = GroupVersionResource("inference.networking.k8s.io", "v1", "inferencepools")
_START_S = 5.0
_PORTS_MOST = 8
_MOST_PORT = 65_535


class InferencePoolSpec(msgspec.Struct, frozen=True):
    """The selector, the target ports and the failure mode of an InferencePool."""

    selector: str
    """As Kubernetes writes selectors: `a=b,c=d`."""
    ports: tuple[int, ...]
    app_protocol: str = "http"
    fails_open: bool = False


class _Port(msgspec.Struct, frozen=True):
    number: int


class _Selector(msgspec.Struct, frozen=True):
    match_labels: Mapping[str, str] = msgspec.field(name="matchLabels")


class _PickerRef(msgspec.Struct, frozen=True):
    failure_mode: str = msgspec.field(name="failureMode", default="FailClose")


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    selector: _Selector
    target_ports: tuple[_Port, ...]
    app_protocol: str = "http"
    endpoint_picker_ref: _PickerRef = _PickerRef()


class _Raw(msgspec.Struct, frozen=True):
    spec: _Spec


def pool_of(raw: Raw) -> InferencePoolSpec:
    spec = msgspec.convert(raw, _Raw).spec
    ports = tuple(dict.fromkeys(port.number for port in spec.target_ports))
    if not 1 <= len(ports) <= _PORTS_MOST or not all(0 < port <= _MOST_PORT for port in ports):
        raise ValueError(f"spec.targetPorts: must have 1 to {_PORTS_MOST} ports")
    if not spec.selector.match_labels:
        raise ValueError("spec.selector.matchLabels: must not be empty")
    selector = ",".join(f"{name}={value}" for name, value in sorted(spec.selector.match_labels.items()))
    return InferencePoolSpec(selector, ports, spec.app_protocol, spec.endpoint_picker_ref.failure_mode == "FailOpen")


class SelectedPods(Datastore):
    """Pods of a namespace that a selector matches, on given ports: a pool without a pool object."""

    def __init__(self, client: KubeClient, namespace: str, spec: InferencePoolSpec | None = None) -> None:
        super().__init__()
        self._client = client
        self._namespace = namespace
        self._spec = spec
        self._pods: Informer[ServingPod] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def spec(self) -> InferencePoolSpec | None:
        """As last seen."""
        return self._spec

    @property
    def known(self) -> bool:
        return self._pods is not None and self._pods.synced

    @property
    def problem(self) -> str:
        """The problem in one sentence; empty: none."""
        return self._pods.problem if self._pods is not None else ""

    async def start(self) -> None:
        self._follow()
        await self._settle()

    async def stop(self) -> None:
        tasks, self._tasks = list(self._tasks.values()), {}
        await cancel_all(tasks)

    async def _settle(self) -> None:
        """Wait for the first list, but not for an unavailable API."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                while not self.known and not self.problem:  # noqa: ASYNC110 - two informers can end the wait, in two ways each
                    await asyncio.sleep(0.01)

    def _follow(self) -> None:
        """Watch the pods of the selector in force."""
        spec = self._spec
        if spec is None:
            return
        if self._pods is None or self._pods.query.labels != spec.selector:
            self._run("pods", pods := Informer(self._client, Query(PODS, self._namespace, spec.selector), pod_of))
            self._pods = pods
            pods.listen(lambda _: self._update())
        self._update()

    def _run(self, name: str, informer: "Informer[ServingPod] | Informer[InferencePoolSpec]") -> None:
        before = self._tasks.pop(name, None)
        if before is not None:
            before.cancel()
        self._tasks[name] = asyncio.create_task(informer.run())

    def _update(self) -> None:
        if self._spec is not None and self._pods is not None and self._pods.synced:
            self.replace(endpoints_of(self._pods.snapshot.values(), self._spec.ports))


class PoolEndpoints(SelectedPods):
    """The pods of a pool by its name. An `EndpointSource`."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        super().__init__(client, namespace)
        self._name = name
        query = Query(INFERENCE_POOLS, namespace, fields=f"metadata.name={name}")
        self._pool = Informer(client, query, pool_of)
        self._pool.listen(self._on_pool)

    @property
    def problem(self) -> str:
        if self._pool.problem:
            return self._pool.problem
        if self._pool.synced and self._spec is None:
            return f"InferencePool {self._namespace}/{self._name} is not there, or cannot be read"
        return super().problem

    async def start(self) -> None:
        self._run("pool", self._pool)
        await self._settle()

    def _on_pool(self, _: Sequence[InformerEvent[InferencePoolSpec]]) -> None:
        self._spec = next(iter(self._pool.snapshot.values()), None)
        if self._spec is None:
            self.replace(())
        else:
            self._follow()
