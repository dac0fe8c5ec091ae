"""The side door, over HTTP."""

import asyncio

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from modelplane.epp.replay.snapshot import decode, encode
from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.server.observe import AdminServer, PickerCollector, PickerMetrics, PoolStats
from modelplane.epp.server.observe.admin import PacedPage

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


class Counted:
    """A page of so many parts, each of which takes some time."""

    def __init__(self, clock, parts=3, part_s=1.0):
        self.made = 0
        self.clock, self.count, self.part_s = clock, parts, part_s

    def parts(self):
        self.made += 1
        for at in range(self.count):
            self.clock.now += self.part_s
            yield f"{self.made}.{at} ".encode()


class Hand:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_page_is_made_once_for_all_that_wait_and_kept_for_nine_times_as_long():
    async def main():
        clock = Hand()
        page = Counted(clock)
        paced = PacedPage(page, clock)
        together = await asyncio.gather(*(paced.body() for _ in range(5)))
        clock.now += 26.9
        kept = await paced.body()
        clock.now += 0.1
        return together, kept, await paced.body()

    together, kept, anew = asyncio.run(main())
    assert (together, kept, anew) == ([b"1.0 1.1 1.2 "] * 5, b"1.0 1.1 1.2 ", b"2.0 2.1 2.2 ")


def test_other_work_goes_on_while_a_large_page_is_made():
    """A page of 1,000 records takes 0.3 s in all; a part of it must not."""
    numbers = PickerMetrics()
    for at in range(1_100):
        asked = Request("id", "m", fairness_id=f"tenant-{at}", received_s=1.0)
        numbers.decided(asked, Decision(Outcome.PICKED, ((ENDPOINT,),)), 0.1)
        numbers.ended(asked, EndpointResponse(ENDPOINT, 200, 1.0, first_byte_s=1.5, ended_s=2.0))
    turns = 0

    async def tick():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main():
        ticking = asyncio.create_task(tick())
        body = await PacedPage(PickerCollector(numbers, PoolStats)).body()
        ticking.cancel()
        return body

    lines = asyncio.run(main()).count(b"\n")
    assert lines > 80_000
    assert turns > lines // 1000
