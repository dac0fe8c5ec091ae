"""Modelplane's own picker with the default configuration and TLS."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from modelplane.conformance.epp.runs import PickerUnderTest
from modelplane.conformance.epp.upstreams import Upstreams
from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.server import PickerServer, PickerSettings
from modelplane.epp.transport.tls import self_signed

_CONFIG = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


@asynccontextmanager
async def own_picker(upstreams: Upstreams) -> AsyncIterator[PickerUnderTest]:
    pool = StaticEndpoints([Endpoint(f"kit/pod-{at}", address) for at, address in enumerate(upstreams.addresses)])
    settings = PickerSettings(host="127.0.0.1", port=0, health_port=-1, identity=self_signed(time.time()), drain_s=1.0)
    server = PickerServer(pool, load(_CONFIG), settings)
    await server.start()
    try:
        yield PickerUnderTest(f"127.0.0.1:{server.port}", tls=True)
    finally:
        await server.stop()
