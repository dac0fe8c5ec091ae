"""Endpoints scraped over real sockets, from correct and faulty servers."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from modelplane.epp.datalayer.scrape import Engines, MetricsInUse, ScrapeIntervals, Scraper, ScrapeSettings
from modelplane.epp.datalayer.scrape.connections import ScrapeConnection
from modelplane.epp.datalayer.scrape.engines import EngineMetricNames as Kind
from modelplane.epp.datalayer.scrape.engines import MetricFamily
from modelplane.epp.datalayer.scrape.targets import ScrapeTarget, page_of
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.sim.engine import EngineConfig, SimulatedEngine
from tests.support.waiting import until

QUICK = ScrapeSettings(
    ScrapeIntervals(busy_s=0.01, warm_s=0.02, idle_s=0.05, failing_s=0.05), timeout_s=30, tick_s=0.005
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"


def page(waiting=1, running=2, kv=0.5):
    text = f"vllm:num_requests_waiting {waiting}\nvllm:num_requests_running {running}\nvllm:kv_cache_usage_perc {kv}\n"
    return HEAD % (len(text), text.encode())


class Server:
    """Responds to each request of each connection as configured."""

    def __init__(self):
        self.answer = page()
        self.connections = self.asked = self.open = self.most_open = 0
        self.held = asyncio.Event()
        self.held.set()
        self.hang_up = False
        self.paths = []

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.asked += 1
                self.paths.append(head.split()[1].decode())
                self.open += 1
                self.most_open = max(self.most_open, self.open)
                await self.held.wait()
                self.open -= 1
                writer.write(self.answer)
                if self.hang_up:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def serving():
    behaviour = Server()
    server = await asyncio.start_server(behaviour.serve, "127.0.0.1", 0)
    behaviour.port = server.sockets[0].getsockname()[1]
    try:
        yield behaviour
    finally:
        behaviour.held.set()
        server.close()


def endpoint_of(server, name="default/pod", **labels):
    return Endpoint(name, f"127.0.0.1:{server.port}", labels)


@asynccontextmanager
async def looking(*endpoints, settings=QUICK, engines=None):
    scraper = Scraper(engines, settings)
    scraper.watch(endpoints)
    await scraper.start()
    try:
        yield scraper
    finally:
        await scraper.stop()
        await asyncio.sleep(0.01)


def story(body):
    async def main():
        async with serving() as server:
            await body(server)

    asyncio.run(main())


def test_the_load_follows_the_page_over_one_connection():
    async def body(server):
        endpoint = endpoint_of(server)
        async with looking(endpoint) as scraper:
            await until(lambda: endpoint.metrics.waiting == 1)
            scraped_s = endpoint.metrics.scraped_s
            server.answer = page(waiting=9, kv=0.75)
            await until(lambda: endpoint.metrics.waiting == 9)
            assert (endpoint.metrics.running, endpoint.metrics.kv_cache_usage) == (2, 0.75)
            assert endpoint.metrics.scraped_s > scraped_s
            assert (scraper.stale(), dict(scraper.problems), scraper.counts.failures) == ([], {}, 0)
        assert server.connections == 1

    story(body)


def test_a_real_engine():
    async def main():
        engine = SimulatedEngine(EngineConfig(cluster="east", namespace="team", pod="p", models=("demo",), speed=1000))
        address = await engine.start("127.0.0.1")
        endpoint = Endpoint("team/p", f"{address.host}:{address.port}")
        async with looking(endpoint):
            await until(lambda: endpoint.metrics.scraped_s >= 0)
            assert endpoint.metrics.blocks > 0
            assert endpoint.metrics.block_size > 0
        await engine.stop(grace_s=0)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "HTTP status 503"),
        (b"nonsense\r\n\r\n", "no HTTP/1.1 response"),
        (HEAD % (9999, b"short"), "no response in 0.3 s"),
        (HEAD % (3, b"x 1"), "the page has no metrics of vllm"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "the most is 4194304"),
    ],
)
def test_an_endpoint_that_fails_keeps_its_numbers_and_comes_back(answer, problem):
    async def body(server):
        endpoint = endpoint_of(server)
        async with looking(endpoint, settings=ScrapeSettings(QUICK.intervals, timeout_s=0.3, tick_s=0.005)) as scraper:
            await until(lambda: endpoint.metrics.waiting == 1)
            server.answer = answer
            await until(lambda: problem in scraper.problems.get("default/pod", ""))
            assert endpoint.metrics.waiting == 1
            server.answer = page(waiting=4)
            await until(lambda: endpoint.metrics.waiting == 4)
            assert dict(scraper.problems) == {}

    story(body)


def test_numbers_of_a_page_that_hangs_age_until_what_was_sent_there_counts():
    async def body(server):
        server.answer = page(waiting=50, running=20, kv=0.9)
        intervals = msgspec.structs.replace(QUICK.intervals, stale_s=0.02, half_life_s=0.02, failing_s=0.02)
        endpoint = endpoint_of(server)
        endpoint.requests_in_flight = 8
        async with looking(endpoint, settings=ScrapeSettings(intervals, timeout_s=0.2, tick_s=0.005)) as scraper:
            await until(lambda: endpoint.metrics.requests_at_scrape == 8)
            assert (endpoint.waiting, endpoint.running) == (50, 20)
            server.held.clear()
            await until(lambda: endpoint.metrics.waiting < 0.5)
            assert (round(endpoint.waiting), round(endpoint.running)) == (8, 8)
            assert endpoint.kv_cache_usage < 0.05
            assert scraper.stale() == [endpoint]
            server.held.set()
            await until(lambda: (endpoint.waiting, endpoint.running) == (50, 20))

    story(body)


def test_a_page_that_failed_is_tried_soon_while_requests_are_in_flight_there():
    async def body(server):
        server.answer = b"nonsense\r\n\r\n"
        # The intervals of failures double: twenty of them take more than ten minutes.
        intervals = msgspec.structs.replace(QUICK.intervals, failing_s=600.0, retry_s=0.01)
        endpoint = endpoint_of(server)
        endpoint.requests_in_flight = 1
        async with looking(endpoint, settings=ScrapeSettings(intervals, timeout_s=30, tick_s=0.005)) as scraper:
            await until(lambda: scraper.counts.failures >= 20)

    story(body)


def test_an_unreachable_endpoint_is_stale_and_reported():
    async def main():
        endpoint = Endpoint("default/gone", "127.0.0.1:1")
        async with looking(endpoint) as scraper:
            await until(lambda: scraper.counts.failures >= 2)
            assert scraper.stale() == [endpoint]
            assert "cannot connect" in scraper.problems["default/gone"]

    asyncio.run(main())


def test_refused_scrapes_count_where_requests_are_sent_until_one_succeeds():
    async def main():
        async with serving() as server:
            port = server.port
        elsewhere = Endpoint(
            "default/elsewhere", "10.9.8.7:80", {"metricsAddress": "127.0.0.1", "metricsPort": str(port)}
        )
        endpoint = Endpoint("default/pod", f"127.0.0.1:{port}")
        async with looking(endpoint, elsewhere) as scraper:
            await until(lambda: scraper.counts.failures >= 6)
            assert endpoint.metrics.refused_scrapes >= 2
            assert (elsewhere.metrics.refused_scrapes, len(scraper.problems)) == (0, 2)
            again = await asyncio.start_server(Server().serve, "127.0.0.1", port)
            await until(lambda: endpoint.metrics.waiting == 1)
            assert endpoint.metrics.refused_scrapes == 0
            again.close()

    asyncio.run(main())


def test_a_connection_that_the_server_closed_is_opened_again_without_a_failure():
    async def body(server):
        endpoint = endpoint_of(server)
        server.hang_up = True
        async with looking(endpoint) as scraper:
            await until(lambda: server.connections >= 5)
            assert scraper.counts.failures == 0

    story(body)


def test_an_engine_label_that_comes_later_is_taken_up():
    async def body(server):
        text = b"sglang:num_queue_reqs 7\nsglang:num_running_reqs 1\nsglang:token_usage 0.5\n"
        server.answer = HEAD % (len(text), text)
        endpoint = endpoint_of(server)
        async with looking(endpoint) as scraper:
            await until(lambda: scraper.problems)
            endpoint.labels = {"llm-d.ai/engine-type": "sglang"}
            scraper.watch([endpoint])
            await until(lambda: endpoint.metrics.waiting == 7)
            await until(lambda: not scraper.problems)

    story(body)


@pytest.mark.parametrize(
    ("engine", "path", "names"),
    [
        ("vllm", "/metrics", ("vllm:num_requests_waiting", "vllm:num_requests_running")),
        ("nim", "/v1/metrics", ("vllm:num_requests_waiting", "vllm:num_requests_running")),
        ("trtllm-serve", "/prometheus/metrics", ("trtllm_num_requests_waiting", "trtllm_num_requests_running")),
        ("llama.cpp", "/metrics", ("llamacpp:requests_deferred", "llamacpp:requests_processing")),
        ("tgi", "/metrics", ("tgi_queue_size", "tgi_batch_current_size")),
        ("tei", "/metrics", ("te_queue_size",)),
    ],
)
def test_the_page_of_each_engine_is_where_that_engine_has_it(engine, path, names):
    async def body(server):
        text = "".join(f"{name} {value}\n" for name, value in zip(names, (4, 2), strict=False)).encode()
        server.answer = HEAD % (len(text), text)
        endpoint = endpoint_of(server, **{"llm-d.ai/engine-type": engine})
        async with looking(endpoint):
            await until(lambda: endpoint.metrics.waiting == 4)
        assert (set(server.paths), endpoint.metrics.running) == ({path}, 2 if len(names) > 1 else 0)

    story(body)


def test_an_engine_that_becomes_another_is_read_at_its_other_path():
    async def body(server):
        endpoint = endpoint_of(server)
        async with looking(endpoint) as scraper:
            await until(lambda: endpoint.metrics.waiting == 1)
            endpoint.labels = {"llm-d.ai/engine-type": "nim"}
            scraper.watch([endpoint])
            await until(lambda: server.paths[-1] == "/v1/metrics")
            scraper.watch([endpoint])
            server.answer = page(waiting=9)
            await until(lambda: endpoint.metrics.waiting == 9)
        assert server.connections == 2

    story(body)


def test_no_more_at_once_than_allowed():
    async def body(server):
        server.held.clear()
        endpoints = [endpoint_of(server, f"default/{number}") for number in range(12)]
        settings = ScrapeSettings(QUICK.intervals, timeout_s=30, at_once=4, tick_s=0.005)
        async with looking(*endpoints, settings=settings):
            await until(lambda: server.open == 4)
            await asyncio.sleep(0.05)
            server.held.set()
            await until(lambda: all(endpoint.metrics.waiting == 1 for endpoint in endpoints))
        assert server.most_open == 4

    story(body)


def test_removed_endpoints_are_not_scraped_and_others_keep_their_connection():
    async def body(server):
        stays, leaves = endpoint_of(server, "default/stays"), endpoint_of(server, "default/leaves")
        async with looking(stays, leaves) as scraper:
            await until(lambda: stays.metrics.waiting == 1 and leaves.metrics.waiting == 1)
            scraper.watch([stays])
            server.answer = page(waiting=5)
            await until(lambda: stays.metrics.waiting == 5)
            await asyncio.sleep(0.1)
            assert leaves.metrics.waiting == 1
        assert server.connections == 2

    story(body)


def test_an_endpoint_removed_during_its_scrape_frees_its_place():
    async def body(server):
        server.held.clear()
        first, second = endpoint_of(server, "default/a"), endpoint_of(server, "default/b")
        settings = ScrapeSettings(QUICK.intervals, timeout_s=30, at_once=1, tick_s=0.005)
        async with looking(first, settings=settings) as scraper:
            await until(lambda: server.open == 1)
            scraper.watch([second])
            server.held.set()
            await until(lambda: second.metrics.waiting == 1)
            assert first.metrics.scraped_s < 0

    story(body)


def test_requests_in_flight_advance_the_next_scrape():
    async def body(server):
        endpoint = endpoint_of(server)
        settings = ScrapeSettings(ScrapeIntervals(busy_s=0.01, warm_s=3000, idle_s=3000), tick_s=0.005)
        server.answer = page(waiting=0, running=0)
        async with looking(endpoint, settings=settings):
            await until(lambda: server.asked >= 6)
            endpoint.requests_in_flight = 1
            # By doubling alone this would take hours.
            await until(lambda: server.asked >= 30)

    story(body)


@pytest.mark.parametrize(
    ("ended", "tokens_at_scrape"),
    [
        pytest.param((0, -64), 0, id="its response has begun"),
        pytest.param((-1, -64), 160, id="its start was not reported"),
    ],
)
def test_a_scrape_has_requests_in_flight_and_their_uncomputed_tokens(ended, tokens_at_scrape):
    async def body(server):
        endpoint = endpoint_of(server)
        endpoint.count(1, 64)
        endpoint.count(*ended)
        endpoint.count(1, 160)
        async with looking(endpoint):
            await until(lambda: endpoint.metrics.scraped_s >= 0)
        load = endpoint.metrics
        assert (load.requests_at_scrape, load.tokens_at_scrape) == (endpoint.requests_in_flight, tokens_at_scrape)

    story(body)


def test_without_readers_an_endpoint_is_scraped_once():
    async def body(server):
        endpoint = endpoint_of(server)
        endpoint.requests_in_flight = 1
        async with looking(endpoint, settings=ScrapeSettings(QUICK.intervals, MetricsInUse(load=False), tick_s=0.005)):
            await until(lambda: server.asked == 1)
            await asyncio.sleep(0.1)
        assert server.asked == 1

    story(body)


def test_numbers_of_ones_own_become_attributes():
    async def body(server):
        kind = Kind(name="mine", waiting=MetricFamily("q"), others=(("depth", MetricFamily("d")),))
        endpoint = endpoint_of(server)
        endpoint.attributes = {"price": 2.0}
        server.answer = HEAD % (8, b"q 1\nd 7\n")
        async with looking(endpoint, engines=Engines([kind], default="mine")):
            await until(lambda: endpoint.metrics.waiting == 1)
        assert dict(endpoint.attributes) == {"price": 2.0, "depth": 7.0}

    story(body)


@pytest.mark.parametrize(
    ("address", "labels", "target"),
    [
        ("10.0.0.1:8000", {}, ScrapeTarget("10.0.0.1", 8000)),
        ("[fd00::1]:8000", {}, ScrapeTarget("fd00::1", 8000)),
        (
            "10.0.0.1:8000",
            {"metricsAddress": "metrics.example", "metricsPort": "9090"},
            ScrapeTarget("metrics.example", 9090),
        ),
        ("10.0.0.1:8000", {"metricsAddress": ""}, None),
        ("nonsense", {}, None),
    ],
)
def test_where_the_page_is(address, labels, target):
    assert page_of(Endpoint("x", address, labels)) == target


def test_the_http_request_of_a_scrape():
    assert ScrapeTarget("fd00::1", 80).request == (
        b"GET /metrics HTTP/1.1\r\nHost: [fd00::1]:80\r\nAccept: text/plain;version=0.0.4\r\n"
        b"User-Agent: modelplane\r\n\r\n"
    )


def test_one_fetch_at_a_time():
    async def body(server):
        connection = ScrapeConnection(ScrapeTarget("127.0.0.1", server.port), timeout_s=30)
        connection.fetch(lambda *_: None)
        with pytest.raises(RuntimeError, match="already in flight"):
            connection.fetch(lambda *_: None)
        connection.close()

    story(body)
