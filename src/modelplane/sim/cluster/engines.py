"""The engines of pods: the interface that the kubelet uses, and engines that run in this process."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from modelplane.api.objects import Manifest, items_at, mapping_at, name_of, namespace_of, text_at
from modelplane.epp.sidecar.warm_up import parse_plan, warm_up
from modelplane.sim.cluster.claims import ClaimReader, allocated_devices
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.engine_exit import EngineExit
from modelplane.sim.cluster.objects import annotated, annotation
from modelplane.sim.cluster.phases import DECODE, Peers, Running, phase_of
from modelplane.sim.cluster.pickers import Pickers
from modelplane.sim.cluster.probes import is_healthy
from modelplane.sim.cluster.serve_arguments import ServeArguments
from modelplane.sim.cluster.settings import FAULTS
from modelplane.sim.engine import (
    LLAMA_8B_H200,
    NO_FAULTS,
    EngineConfig,
    EngineRegistry,
    Faults,
    RequestTracer,
    SimulatedEngine,
    Timing,
    gpu_of,
    kv_capacity_tokens,
    read_list,
    shape_of,
    timing_for,
)

GPUS = "sim.modelplane.ai/gpus"
"""On a pod: the product names of the GPUs that it holds, separated by commas. They decide how fast its engine is."""

_PROBE_TIMEOUT_S = 1.0
# Time for a proxy that has not learned yet that the pod is terminating.
_LINGER_S = 5.0
_RESOURCE_GROUP = "resource.k8s.io"
# Twice an engine's default context length.
_LEAST_CACHE_TOKENS = 65_536
_PRODUCT_ATTRIBUTES = ("productName", "model")


class EngineFactory(Protocol):
    """Starts and stops the servers of pods."""

    simulated: bool
    """Whether images, loading and failures are made up. Real processes have their own."""

    async def start(
        self, pod: Manifest, cluster: str, *, store: ClusterStore, crashed: Callable[[EngineExit | None], None]
    ) -> Running:
        """Return once it listens. Cancelled or failed, it leaves nothing behind; `crashed` is called when it exits."""

    async def start_picker(self, pod: Manifest, store: ClusterStore) -> Running:
        """The same for an endpoint picker pod."""

    async def healthy(self, running: Running) -> bool:
        """Whether its readiness probe succeeds."""

    async def warm_up(self, running: Running, words: Sequence[str]) -> None:
        """Run a warm-up container with these arguments, once. Raises WarmUpError."""

    def set_faults(self, running: Running, faults: Faults) -> None:
        """Set its faults."""

    async def stop(self, running: Running, *, grace_s: float) -> None:
        """Refuse new requests, let running ones end for up to grace_s, then cut what is left."""


class Lookup(ClaimReader, Protocol):
    """What `with_gpus` needs of a cluster's store."""

    def list(self, group: str, kind: str) -> Iterable[Manifest]: ...


class LocalEngines:
    """Simulated engines in this process, on loopback. `speed` divides every simulated time.

    How long a step takes follows from the pod's model and GPUs where both are known; else `timing` holds, with the
    cache of an 8B on an H200.
    """

    simulated = True

    def __init__(self, *, host: str = "127.0.0.1", speed: float = 1.0, timing: Timing = LLAMA_8B_H200) -> None:
        self._host = host
        self._speed = speed
        self._timing = timing
        self._exchange = EngineRegistry()
        self._engines: dict[Running, SimulatedEngine] = {}
        self._peers = Peers()
        self._pickers = Pickers()

    async def start(
        self,
        pod: Manifest,
        cluster: str,
        *,
        store: ClusterStore | None = None,  # noqa: ARG002  a simulated engine reads nothing
        crashed: Callable[[EngineExit | None], None] = lambda _ended: None,
    ) -> Running:
        config = engine_config(pod, cluster, speed=self._speed, timing=self._timing)
        prefillers = self._peers.prefillers(cluster, pod) if phase_of(pod) == DECODE else None
        engine = SimulatedEngine(
            config,
            exchange=self._exchange,
            crashed=partial(crashed, None),
            prefillers=prefillers,
            traced=request_tracer(pod),
        )
        try:
            address = await engine.start(self._host)
        except BaseException:
            await engine.stop(grace_s=0)
            raise
        running = Running(address.host, address.port)
        self._engines[running] = engine
        self._peers.join(running, cluster, pod)
        return running

    async def start_picker(self, pod: Manifest, store: ClusterStore) -> Running:
        return await self._pickers.start(pod, store)

    async def healthy(self, running: Running) -> bool:
        return await is_healthy(running, timeout_s=_PROBE_TIMEOUT_S)

    async def warm_up(self, running: Running, words: Sequence[str]) -> None:
        await warm_up(f"{running.host}:{running.port}", parse_plan(words))

    def set_faults(self, running: Running, faults: Faults) -> None:
        engine = self._engines.get(running)
        if engine is not None:  # pickers have none
            engine.set_faults(faults)

    async def stop(self, running: Running, *, grace_s: float) -> None:
        self._peers.leave(running)
        await self._pickers.stop(running)
        engine = self._engines.pop(running, None)
        if engine is not None:
            await engine.stop(grace_s=grace_s, linger_s=min(grace_s, _LINGER_S))

    def __len__(self) -> int:
        """The number of running engines."""
        return len(self._engines)


def request_tracer(pod: Manifest) -> RequestTracer | None:
    """Sends the spans of an engine with --otlp-traces-endpoint, by OTLP over HTTP: vLLM's `http/protobuf`."""
    arguments = ServeArguments.of(pod)
    if not arguments.traces_endpoint:
        return None
    from modelplane.epp.server.observe.request_spans import RequestSpan, shared_spans

    spans, model = shared_spans("vllm", arguments.traces_endpoint), arguments.models[0]

    def traced(headers: Mapping[str, str], began_s: float, status: int) -> None:
        spans.record(headers, RequestSpan("llm_request", began_s, {"gen_ai.response.model": model}, status))

    return traced


def engine_config(pod: Manifest, cluster: str, *, speed: float, timing: Timing) -> EngineConfig:
    """The configuration of a pod's engine, from its command line and the GPUs in the annotation `GPUS`."""
    arguments = ServeArguments.of(pod)
    given: dict[str, int | Timing] = {"timing": timing, **arguments.limits(), **_hardware(pod, arguments)}
    plain = EngineConfig(
        cluster=cluster,
        namespace=namespace_of(pod),
        pod=name_of(pod),
        models=arguments.models,
        speed=speed,
        tensor_parallel=arguments.tensor_parallel,
        prefix_caching=arguments.prefix_caching,
        max_loras=arguments.max_loras,
        adapters=arguments.adapters,
        runtime_lora=arguments.runtime_lora,
        kv_transfer=arguments.kv_transfer,
        kv_events=arguments.kv_events,
        faults=faults_of(annotation(pod, FAULTS)),
    )
    return replace(plain, **given)  # type: ignore[arg-type]  # each field with a value of its own type


def faults_of(text: str) -> Faults:
    """The faults of an annotation; none where it cannot be read."""
    try:
        return read_list(text)
    except ValueError:
        return NO_FAULTS


def with_gpus(pod: Manifest, store: Lookup) -> Manifest:
    """The pod with the annotation `GPUS`: the product names of the GPUs that its claims hold."""
    if annotation(pod, GPUS):
        return pod
    held = [
        (text_at(each, "driver"), text_at(each, "pool"), text_at(each, "device"))
        for each in allocated_devices(pod, store)
    ]
    products = _products(_slices(store, {pool for _, pool, _ in held})) if held else {}
    gpus = [products[device] for device in held if device in products]
    return annotated(pod, GPUS, ",".join(gpus)) if gpus else pod


def _slices(store: Lookup, pools: Collection[str]) -> list[Manifest]:
    found = store.list(_RESOURCE_GROUP, "ResourceSlice")
    return [item for item in found if text_at(item, "spec", "pool", "name") in pools]


def _products(slices: Iterable[Manifest]) -> dict[tuple[str, str, str], str]:
    return {
        (text_at(item, "spec", "driver"), text_at(item, "spec", "pool", "name"), str(device.get("name"))): product
        for item in slices
        for device in items_at(item, "spec", "devices")
        if (product := _product(mapping_at(device, "attributes")))
    }


def _product(attributes: Mapping[str, object]) -> str:
    """An attribute's name may be qualified by its driver's."""
    for key, value in attributes.items():
        if key.rpartition("/")[2] in _PRODUCT_ATTRIBUTES and isinstance(value, Mapping):
            return str(value.get("string", ""))
    return ""


def _hardware(pod: Manifest, arguments: ServeArguments) -> dict[str, int | Timing]:
    """Timing and KV cache size on the pod's GPUs; at least two contexts fit."""
    gpus = [gpu for name in annotation(pod, GPUS).split(",") if (gpu := gpu_of(name)) is not None]
    if not gpus:
        return {}
    shape = shape_of(arguments.checkpoint)
    shards = max(arguments.tensor_parallel, 1)
    room = kv_capacity_tokens(shape, gpus[0], gpus=max(shards, len(gpus)))
    return {
        "timing": timing_for(shape, gpus[0], tensor_parallel=shards),
        "kv_capacity_tokens": max(room, _LEAST_CACHE_TOKENS, 2 * (arguments.max_model_len or 0)),
        "kv_bytes_per_token": shape.kv_bytes_per_token,
    }
