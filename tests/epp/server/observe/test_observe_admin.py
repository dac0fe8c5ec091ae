"""The side door, over HTTP."""

import asyncio

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from modelplane.epp.replay.snapshot import decode, encode
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.server.observe import AdminServer, PickerCollector, PickerMetrics, PoolStats

ENDPOINT = Endpoint("team/p", "10.0.0.1:8000", metrics=EndpointMetrics(waiting=2, scraped_s=9.0), requests_in_flight=3)


def send(*paths, problem="", dump=True):
    async def main():
        collector = PickerCollector(PickerMetrics(), lambda: PoolStats("pool", (ENDPOINT,)))
        state = (lambda: encode((ENDPOINT,), 10.0)) if dump else None
        server = AdminServer(collector, ("127.0.0.1", 0), problem=lambda: problem, state=state)
        await server.start()
        answers = []
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            for path in paths:
                async with session.get(path) as answer:
                    answers.append((answer.status, answer.headers["Content-Type"], await answer.text()))
        await server.stop()
        return answers

    return asyncio.run(main())


def test_metrics():
    ((status, kind, text),) = send("/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'llm_d_epp_ready_endpoints{name="pool"} 1' in text
    assert "process_cpu_seconds_total" in text
    assert len(list(text_string_to_metric_families(text))) > 30


def test_health_and_readiness():
    healthy, ready = send("/healthz", "/readyz")
    assert (healthy[0], ready[0]) == (200, 200)
    healthy, ready = send("/healthz", "/readyz", problem="no pool yet")
    assert (healthy[0], ready[0], ready[2]) == (200, 503, "no pool yet\n")


def test_the_state_can_be_read_back_by_explain():
    ((status, _, text),) = send("/debug/state")
    state = decode(text)
    (endpoint,) = state.endpoints
    assert (status, state.now_s, endpoint.name, endpoint.requests_in_flight) == (200, 10.0, "team/p", 3)
    assert endpoint.metrics == ENDPOINT.metrics


def test_no_state_where_it_is_not_wanted():
    assert send("/debug/state", dump=False)[0][0] == 404
