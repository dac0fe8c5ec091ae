"""A picker with several workers, as real processes: one port, one scraper, shared counts, one page, one end."""

import asyncio
import os
import signal
import socket
import ssl
from contextlib import AsyncExitStack

import grpc
import pytest

from modelplane.envoy.ports import free_port
from modelplane.epp.flowcontrol import WorkerShare
from modelplane.epp.server.health import CHECK
from modelplane.epp.server.worker_messages import WorkerSetup
from modelplane.epp.server.workers import WorkerFailed, WorkerProcesses, processors
from tests.support.picker_process import (
    SmallEngine,
    end,
    list_endpoints,
    open_request,
    pick,
    serving,
)
from tests.support.waiting import until

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
BY_REQUESTS = (
    HEAD
    + """plugins: [{type: active-request-scorer}, {type: max-score-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer}, {pluginRef: max-score-picker}]}]
"""
)
BY_QUEUE = (
    HEAD
    + """plugins: [{type: queue-scorer}, {type: max-score-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}, {pluginRef: max-score-picker}]}]
"""
)
TWO_LISTED = (
    HEAD
    + """plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]
"""
)
LIMITED = (
    HEAD
    + """featureGates: [flowControl]
plugins: [{type: concurrency-detector, parameters: {maxConcurrency: 3}}, {type: max-score-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]
saturationDetector: {pluginRef: concurrency-detector}
"""
)
NOWHERE = (("127.0.0.1", 9), ("127.0.0.1", 10))
SERVED = "llm_d_epp_worker_requests_total"
pytestmark = [pytest.mark.e2e, pytest.mark.submission]


def run(story):
    async def limited():
        async with asyncio.timeout(280):
            return await story

    return asyncio.run(limited())


async def connections(stack, picker, count):
    return [await stack.enter_async_context(picker.connection()) for _ in range(count)]


def test_workers_serve_one_port_share_counts_and_scrape_once(tmp_path):
    """Requests of both go to the endpoint with fewer, whoever sent the others; engines see one scraper."""

    async def story():
        engines = SmallEngine(), SmallEngine()
        async with AsyncExitStack() as stack:
            ports = [await stack.enter_async_context(engine.serving()) for engine in engines]
            addresses = [("127.0.0.1", port) for port in ports]
            flags = ("--workers", "2", "--config-text", BY_REQUESTS, "--refresh-metrics-interval", "100ms")
            picker = await stack.enter_async_context(serving(tmp_path, addresses, *flags))
            calls = await connections(stack, picker, 2)
            rounds = [await one_each(picker, calls) for _ in range(6)]
            await until(lambda: all(engine.scrapes > 3 for engine in engines))
            await until(lambda: counters_of(picker, 12))
            series, pids = await picker.series(), await picker.worker_pids()
            return rounds, series, pids, await picker.get("/readyz"), [engine.connections for engine in engines]

    rounds, series, pids, ready, scrapers = run(story())
    assert [len(set(places)) for places in rounds] == [2] * 6
    assert [series[SERVED, ("worker", str(number))] for number in (0, 1)] == [6, 6]
    total = [value for key, value in series.items() if key[0] == "llm_d_epp_request_total"]
    assert sum(total) == 12
    assert len(set(pids.values())) == 2
    assert ready == (200, "ok\n")
    assert scrapers == [1, 1]


async def one_each(picker, calls):
    """Where a request of the first connection goes, and then one of the second."""
    opened = []
    for number, call in enumerate(calls):
        opened.append(await open_request(call))
        await until(lambda number=number: counted(picker, number + 1))
        await asyncio.sleep(0.1)
    for stream, _ in opened:
        await end(stream)
    await until(lambda: counted(picker, 0))
    await asyncio.sleep(0.1)
    return [place for _, place in opened]


async def counted(picker, count):
    return sum((await picker.in_flight()).values()) == count


def test_every_worker_decides_by_what_one_process_scraped(tmp_path):
    async def story():
        full, idle = SmallEngine(waiting=50), SmallEngine()
        async with full.serving() as one, idle.serving() as other, AsyncExitStack() as stack:
            addresses = [("127.0.0.1", port) for port in (one, other)]
            flags = ("--workers", "2", "--config-text", BY_QUEUE)
            picker = await stack.enter_async_context(serving(tmp_path, addresses, *flags))
            calls = await connections(stack, picker, 2)
            await until(lambda: full.scrapes > 1 and idle.scrapes > 1)
            await asyncio.sleep(0.3)
            return [await pick(call) for call in calls * 5], f"127.0.0.1:{other}"

    picked, idle = run(story())
    assert picked == [idle] * 10


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_that_refuses_connections_loses_its_share_by_default(tmp_path, workers):
    """Also while the other server has requests in flight. Of a hundred requests one may go there, to find out."""

    async def story():
        async with SmallEngine().serving() as port:
            alive, dead = f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}"
            addresses = [tuple(each.split(":")) for each in (alive, dead)]
            async with serving(tmp_path, addresses, "--workers", workers) as picker, picker.connection() as call:
                await until(lambda: "cannot connect" in picker.log.read_text())
                await asyncio.sleep(1.0)
                opened = [await open_request(call) for _ in range(30)]
                found = [where for _, where in opened]
                assert set(found) <= {alive, dead}
                assert found.count(dead) <= 4
                for stream, _ in opened:
                    await end(stream)

    run(story())


def test_a_worker_that_is_killed_is_started_again_and_leaves_nothing(tmp_path):
    async def story():
        async with AsyncExitStack() as stack:
            flags = ("--workers", "2", "--no-scrape", "--config-text", BY_REQUESTS)
            picker = await stack.enter_async_context(serving(tmp_path, NOWHERE, *flags))
            calls = await connections(stack, picker, 2)
            for call in calls:
                await pick(call)
            opened = [await open_request(call) for call in calls]
            await until(lambda: counted(picker, 2))
            before, pids = await picker.counters(), await picker.worker_pids()
            os.kill(pids[0], signal.SIGKILL)
            await until(lambda: counted(picker, 1))
            await until(lambda: any(stream.done() for stream, _ in opened))
            # One of both connections has lost its worker; the other serves on.
            alive = next(at for at, (stream, _) in enumerate(opened) if not stream.done())
            sums = [await picker.counters()]
            for _ in range(5):
                await pick(calls[alive])
            await until(lambda: restarted(picker, pids))
            async with picker.connection() as new:
                await pick(new)
            # A page is kept for a while.
            sums += [await until(lambda: counters_of(picker, 10))]
            await end(opened[alive][0])
            await until(lambda: counted(picker, 0))
            # Both connections are with one worker by now: one is opened anew, with the other.
            await until(lambda: served_by_both(picker, calls, sums[-1]))
            return before, sums, await picker.worker_pids(), pids, picker.log.read_text()

    before, sums, pids, killed, log = run(story())
    for earlier, later in zip([before, *sums], sums, strict=False):
        assert {key: value for key, value in earlier.items() if later.get(key, 0) < value} == {}
    assert sums[-1]["llm_d_epp_worker_restarts_total", ("worker", "0")] == 1
    served = [sums[-1][SERVED, ("worker", str(number))] for number in (0, 1)]
    assert min(served) >= 2
    assert (pids[0] != killed[0], pids[1] == killed[1]) == (True, True)
    assert f"worker 0 (pid {killed[0]}) ended with code -9: it is started again" in log


async def counters_of(picker, requests):
    """All counters, once so many requests are counted."""
    counters = await picker.counters()
    return counters if sum(value for key, value in counters.items() if key[0] == SERVED) == requests else None


async def served_by_both(picker, calls, before):
    for call in calls:
        await pick(call)
    counters = await picker.counters()
    return all(counters[key] > before[key] for key in before if key[0] == SERVED)


async def restarted(picker, before):
    pids = await picker.worker_pids()
    return len(pids) == 2 and pids[0] != before[0]


def test_open_requests_end_before_the_workers_do(tmp_path):
    async def story():
        async with AsyncExitStack() as stack:
            picker = await stack.enter_async_context(serving(tmp_path, NOWHERE, "--workers", "2", "--no-scrape"))
            calls = await connections(stack, picker, 2)
            opened = [await open_request(call) for call in calls]
            pids = await picker.worker_pids()
            picker.process.send_signal(signal.SIGTERM)
            await until(lambda: is_not_ready(picker))
            await asyncio.sleep(1.0)
            states = picker.process.returncode, [stream.done() for stream, _ in opened], is_open(picker.port)
            for stream, _ in opened:
                await end(stream)
            codes = [(await stream.code()) for stream, _ in opened]
            await asyncio.wait_for(picker.process.wait(), 30)
            return states, codes, picker.process.returncode, [pid for pid in pids.values() if is_running(pid)]

    states, codes, code, left = run(story())
    assert states == (None, [False, False], False)
    assert codes == [grpc.StatusCode.OK] * 2
    assert (code, left) == (0, [])


async def is_not_ready(picker):
    return await picker.get("/readyz") == (503, "the picker is stopping\n")


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_with_the_main_process(tmp_path):
    async def story():
        async with serving(tmp_path, NOWHERE, "--workers", "2", "--no-scrape") as picker:
            pids = await picker.worker_pids()
            picker.process.kill()
            await until(lambda: not any(map(is_running, pids.values())))
            return len(pids)

    assert run(story()) == 2


def test_files_that_change_reach_every_worker_and_those_that_start_later(tmp_path):
    async def story():
        config = tmp_path / "config.yaml"
        config.write_text(BY_REQUESTS)
        async with AsyncExitStack() as stack:
            flags = ("--workers", "2", "--no-scrape", "--config", str(config))
            picker = await stack.enter_async_context(serving(tmp_path, NOWHERE, *flags))
            calls = await connections(stack, picker, 2)
            first = [await pick(call) for call in calls]
            config.write_text(TWO_LISTED)
            await until(lambda: all_pick(calls, lambda found: found.count(",") == 1))
            config.write_text("kind: Nonsense")
            await until(lambda: "kept the previous configuration" in picker.log.read_text())
            pids = await picker.worker_pids()
            os.kill(pids[0], signal.SIGKILL)
            await until(lambda: restarted(picker, pids))
            later = await connections(stack, picker, 3)
            kept = [await pick(call) for call in later]
            list_endpoints(tmp_path / "endpoints.yaml", [("127.0.0.1", 11)])
            await until(lambda: all_pick(later, lambda found: found == "127.0.0.1:11"))
            served = [value for key, value in (await picker.series()).items() if key[0] == SERVED]
            return first, kept, served, picker.log.read_text()

    first, kept, served, log = run(story())
    assert [found.count(",") for found in first] == [0, 0]
    assert [found.count(",") for found in kept] == [1, 1, 1]
    assert min(served) > 2
    assert log.count("kept the previous configuration") == 1


async def all_pick(calls, wanted):
    return all([wanted(await pick(call)) for call in calls])


def test_a_limit_of_requests_holds_for_all_workers_together(tmp_path):
    async def story():
        async with AsyncExitStack() as stack:
            flags = ("--workers", "2", "--no-scrape", "--config-text", LIMITED)
            picker = await stack.enter_async_context(serving(tmp_path, NOWHERE, *flags))
            calls = await connections(stack, picker, 4)
            tasks = [asyncio.create_task(open_request(calls[at % 4])) for at in range(20)]
            await until(lambda: sum(task.done() for task in tasks) >= 6)
            await asyncio.sleep(1.0)
            before = sum(task.done() for task in tasks)
            await end(next(task for task in tasks if task.done()).result()[0])
            await until(lambda: sum(task.done() for task in tasks) >= 7)
            await asyncio.sleep(0.5)
            after = sum(task.done() for task in tasks)
            waiting = [value for key, value in (await picker.series()).items() if key[0].endswith("control_queue_size")]
            for task in tasks:
                task.cancel()
            return before, after, waiting

    assert run(story()) == (6, 7, [13])


def test_pickers_with_workers_share_with_each_other(tmp_path):
    """Two pickers with two workers each: counts and prompts of one worker reach the other three."""

    async def story():
        ports = [free_port(), free_port()]
        peers = ",".join(f"127.0.0.1:{port}" for port in ports)
        async with AsyncExitStack() as stack:
            pickers = []
            for port in ports:
                flags = ("--workers", "2", "--no-scrape", "--peers", peers, "--peer-port", str(port))
                pickers.append(await stack.enter_async_context(serving(tmp_path / str(port), NOWHERE, *flags)))
            await until(lambda: hear_each_other(pickers))
            calls = [call for picker in pickers for call in await connections(stack, picker, 2)]
            stream, home = await open_request(calls[0], "a long story " * 400)
            await until(lambda: counted(pickers[1], 1))
            await asyncio.sleep(0.2)
            found = [await pick(call, "a long story " * 400 + "and then") for call in calls]
            await end(stream)
            await until(lambda: counted(pickers[1], 0))
            return home, found

    home, found = run(story())
    assert found == [home] * 4


async def hear_each_other(pickers):
    return all([(await picker.series()).get(("llm_d_epp_peers",)) == 1 for picker in pickers])


def test_workers_serve_tls_with_one_certificate(tmp_path):
    async def story():
        async with serving(tmp_path, NOWHERE, "--workers", "2", "--no-scrape", "--secure-serving", "true") as picker:
            places = [("127.0.0.1", picker.port)] * 3
            certificates = [await asyncio.to_thread(ssl.get_server_certificate, each) for each in places]
            credentials = grpc.ssl_channel_credentials(certificates[0].encode())
            options = [("grpc.ssl_target_name_override", "localhost")]
            async with grpc.aio.secure_channel(f"127.0.0.1:{picker.port}", credentials, options) as channel:
                return len(set(certificates)), await channel.unary_unary(CHECK)(b"")

    assert run(story()) == (1, b"\x08\x01")


class Unheard:
    """Nobody who is called."""

    def joined(self, worker):
        self.pid = worker.process.pid

    def left(self, worker):
        """It ended."""


def test_a_worker_that_cannot_start_is_an_error_and_leaves_no_process():
    async def story():
        listener = Unheard()
        setup = WorkerSetup(
            share=WorkerShare(), config=b"kind: Nonsense", config_source="config.yaml", identity=None, body_bytes=1,
            held_bytes=1, streams=1, drain_s=1.0,
        )  # fmt: skip
        with pytest.raises(WorkerFailed) as error:
            await WorkerProcesses(1, lambda _number: setup, listener).start()
        return str(error.value), listener.pid

    sentence, pid = run(story())
    assert sentence == f"worker 0 (pid {pid}) ended with code 1 before it was ready"
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000\n", None), ("100000 100000\n", 1), ("50000 100000\n", 1), ("garbage", None), (None, None)],
)
def test_processors_are_those_of_the_affinity_and_of_the_limit(tmp_path, quota, count):
    path = tmp_path / "cpu.max"
    if quota is not None:
        path.write_text(quota)
    assert processors(path) == (count or len(os.sched_getaffinity(0)))
