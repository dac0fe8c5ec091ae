"""Modelplane's own picker, with TLS, and with what the cases about choosing look for.

The default configuration goes by requests in flight and by prefixes. Here it reads queues and KV caches, too, and sheds
at a thousand waiting requests.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from modelplane.conformance.epp.runs import PickerUnderTest
from modelplane.conformance.epp.upstreams import Upstreams
from modelplane.epp.config.config import Config, load
from modelplane.epp.datalayer.endpoints import EndpointSource, StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.runner import PickerRunner, RunnerOptions
from modelplane.epp.server.server import MakeServer, PickerSettings
from modelplane.epp.transport.h2.server import H2Server
from modelplane.epp.transport.tls import self_signed

CONFIG: Final = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: utilization-filter
  parameters: {conditions: [{metric: waiting-queue, maxValue: 1000}]}
- type: active-request-scorer
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: utilization-filter
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 3}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
"""


class OwnPool:
    """A pool that the kit changes. An endpoint that comes back is the one that left."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = {endpoint.address: endpoint for endpoint in endpoints}
        self.source = StaticEndpoints(endpoints)

    def replace(self, addresses: Sequence[str]) -> None:
        self.source.replace([self._endpoints[address] for address in addresses])


class OwnPicker(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What our own picker is made of. Tests replace a part by a broken one."""

    config: Config
    pool: OwnPool
    source: EndpointSource
    scrapes: bool = True
    make_server: MakeServer = H2Server


def own_parts(addresses: Sequence[str]) -> OwnPicker:
    pool = OwnPool([Endpoint(f"kit/pod-{at}", address) for at, address in enumerate(addresses)])
    return OwnPicker(config=load(CONFIG), pool=pool, source=pool.source)


@asynccontextmanager
async def own_picker(upstreams: Upstreams, parts: OwnPicker | None = None) -> AsyncIterator[PickerUnderTest]:
    made_of = parts or own_parts(upstreams.addresses)
    settings = PickerSettings(host="127.0.0.1", port=0, health_port=-1, identity=self_signed(time.time()), drain_s=1.0)
    options = RunnerOptions(metrics_port=-1, scrapes=made_of.scrapes, make_server=made_of.make_server)
    program = PickerRunner(made_of.source, made_of.config, settings, options)
    await program.start()
    try:
        yield PickerUnderTest(f"127.0.0.1:{program.server.port}", tls=True, pool=made_of.pool)
    finally:
        await program.stop()
