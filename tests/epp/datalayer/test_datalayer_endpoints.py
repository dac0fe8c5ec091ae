"""The pool that its owner replaces by hand."""

import asyncio

from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.scheduling.endpoints import Endpoint

A = Endpoint("ns/a", "10.0.0.1:8000")
B = Endpoint("ns/b", "10.0.0.2:8000")


def test_a_static_pool_reports_each_change_once_and_keeps_its_objects():
    pool = StaticEndpoints([A])
    heard = []
    pool.on_change(heard.append)
    assert pool.known
    assert pool.current == (A,)

    pool.replace([A])
    assert heard == []

    pool.replace([A, B])
    pool.replace([])
    assert heard == [(A, B), ()]
    assert pool.current == ()


async def _life(pool):
    await pool.start()
    await pool.stop()


def test_a_static_pool_has_nothing_to_start_or_stop():
    pool = StaticEndpoints([B])
    asyncio.run(_life(pool))
    assert pool.current == (B,)
