"""Modelplane's own picker, with TLS, and with what the cases about choosing want of it.

The default configuration goes by requests in flight and by prefixes. Here it reads queues and KV caches, too, sheds at
a thousand waiting requests, keeps sessions, and has long prompts prefilled elsewhere where pods have roles.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from modelplane.conformance.epp.controls import PickerUnderTest, PoolControl
from modelplane.conformance.epp.kube_pool import NAMESPACE, POOL, KubePool
from modelplane.conformance.epp.upstreams import Upstreams
from modelplane.epp.config.config import Config, load
from modelplane.epp.datalayer.discovery import PoolEndpoints
from modelplane.epp.datalayer.endpoints import EndpointSource
from modelplane.epp.server.runner import PickerRunner, RunnerOptions
from modelplane.epp.server.server import MakeServer, PickerSettings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.tls import ServerIdentity, self_signed
from modelplane.kube import KubeClient, load_config

ADDRESSES: Final = ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.2:0")
"""Two pods, one with two ports."""
CONFIG: Final = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: disagg-profile-handler
  parameters: {deciders: {prefill: prefix-based-pd-decider}}
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 4000}
- type: decode-filter
- type: prefill-filter
- type: session-affinity-filter
- type: utilization-filter
  parameters: {conditions: [{metric: waiting-queue, maxValue: 1000}]}
- type: active-request-scorer
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: destination-endpoint-served-verifier
schedulingProfiles:
- name: prefill
  plugins:
  - pluginRef: prefill-filter
  - pluginRef: active-request-scorer
- name: decode
  plugins:
  - pluginRef: decode-filter
  - pluginRef: utilization-filter
  - pluginRef: session-affinity-filter
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 3}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
"""
_DRAIN_S: Final = 3.0


class OwnPicker(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What our own picker is made of. Tests replace a part by a broken one."""

    addresses: tuple[str, ...]
    config: Config
    pool: PoolControl
    make_source: Callable[[], EndpointSource]
    scrapes: bool = True
    make_server: MakeServer = H2Server
    drain_s: float = _DRAIN_S


class OwnProcess:
    """Our picker in the kit's process: what SIGTERM does to a program of its own, `stop` does here."""

    def __init__(self, parts: OwnPicker, identity: ServerIdentity) -> None:
        self._parts = parts
        self._identity = identity
        self._runner: PickerRunner | None = None
        self.port = 0

    async def start(self) -> None:
        parts = self._parts
        settings = PickerSettings(
            host="127.0.0.1", port=self.port, health_port=-1, identity=self._identity, drain_s=parts.drain_s
        )
        options = RunnerOptions(metrics_port=-1, scrapes=parts.scrapes, make_server=parts.make_server)
        self._runner = PickerRunner(parts.make_source(), parts.config, settings, options)
        await self._runner.start()
        self.port = self._runner.server.port

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.stop()


@asynccontextmanager
async def own_parts(addresses: Sequence[str]) -> AsyncIterator[OwnPicker]:
    with tempfile.TemporaryDirectory(prefix="modelplane-kit-") as folder:
        async with KubePool(addresses).serving() as pool:
            kubeconfig = Path(folder) / "kubeconfig"
            pool.write_kubeconfig(kubeconfig)

            def source() -> EndpointSource:
                return PoolEndpoints(KubeClient(load_config(kubeconfig)), NAMESPACE, POOL)

            yield OwnPicker(addresses=tuple(addresses), config=load(CONFIG), pool=pool, make_source=source)


@asynccontextmanager
async def own_picker(parts: OwnPicker) -> AsyncIterator[PickerUnderTest]:
    process = OwnProcess(parts, self_signed(time.time()))
    await process.start()
    try:
        yield PickerUnderTest(f"127.0.0.1:{process.port}", tls=True, pool=parts.pool, process=process)
    finally:
        await process.stop()


@asynccontextmanager
async def own_target() -> AsyncIterator[tuple[PickerUnderTest, Upstreams]]:
    """Our picker, and the servers that are its pool."""
    async with (
        Upstreams().serving(ADDRESSES) as upstreams,
        own_parts(upstreams.addresses) as parts,
        own_picker(parts) as picker,
    ):
        yield picker, upstreams
