import asyncio

import aiohttp
import pytest

from modelplane.sim.engine import Address, SimulatedEngine

ENDLESS = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], "stream": True, "ignore_eos": True}


@pytest.mark.parametrize(
    ("address", "text"),
    [(Address("127.0.0.1", 80), "127.0.0.1:80"), (Address("::1", 80), "[::1]:80")],
)
def test_an_address_reads_as_in_a_url(address, text):
    assert str(address) == text


def test_a_stopped_engine_refuses_and_can_be_started_on_its_old_port(config):
    async def scenario():
        engine = SimulatedEngine(config())
        address = await engine.start("127.0.0.1")
        await engine.stop()
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://{address}/health")
            assert await engine.start("127.0.0.1", address.port) == address
            async with session.get(f"http://{address}/health") as answer:
                assert answer.status == 200
            await engine.stop()

    asyncio.run(scenario())


def test_connected_clients_are_served_until_they_disconnect(config):
    """A proxy that does not know yet sends a request on a connection that it has: closed under it, it would be lost."""

    async def scenario():
        engine = SimulatedEngine(config())
        address = await engine.start("127.0.0.1")
        async with aiohttp.ClientSession() as known:
            async with known.get(f"http://{address}/health") as answer:
                assert answer.status == 200
            stopping = asyncio.create_task(engine.stop(grace_s=60, linger_s=60))
            await asyncio.sleep(0.1)
            async with aiohttp.ClientSession() as late:
                with pytest.raises(aiohttp.ClientConnectorError):
                    await late.get(f"http://{address}/health")
            async with known.get(f"http://{address}/health") as answer:
                assert answer.status == 200
            assert not stopping.done()
        await stopping

    asyncio.run(scenario())


def test_a_stop_waits_no_longer_than_linger_s(config):
    async def scenario():
        engine = SimulatedEngine(config())
        address = await engine.start("127.0.0.1")
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://{address}/health") as answer:
                assert answer.status == 200
            await engine.stop(grace_s=0, linger_s=0.05)
            with pytest.raises(aiohttp.ClientConnectionError):
                await client.get(f"http://{address}/health")

    asyncio.run(scenario())


def test_starting_twice_is_a_defect_and_stopping_twice_is_not(config):
    async def scenario():
        engine = SimulatedEngine(config())
        await engine.start("127.0.0.1")
        with pytest.raises(RuntimeError, match="engine east/demo-0 is already started"):
            await engine.start("127.0.0.1")
        await engine.stop()
        await engine.stop()

    asyncio.run(scenario())


async def read_stream(url, body, started):
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=body) as answer:
        lines = []
        async for line in answer.content:
            started.set()
            lines += [line] if line.strip() else []
    return lines


def test_stopping_lets_a_running_stream_end(play):
    async def scenario(engine, address):
        started = asyncio.Event()
        stream = asyncio.create_task(read_stream(f"http://{address}", {**ENDLESS, "max_tokens": 30}, started))
        await started.wait()
        await engine.stop(grace_s=60)
        lines = await stream
        assert len(lines) == 1 + 30 + 1 + 1
        assert lines[-1] == b"data: [DONE]\n"

    play(scenario, speed=1)


def test_stopping_cuts_a_stream_that_outlives_the_grace(play):
    async def scenario(engine, address):
        started = asyncio.Event()
        stream = asyncio.create_task(read_stream(f"http://{address}", ENDLESS, started))
        await started.wait()
        before = asyncio.get_running_loop().time()
        await engine.stop(grace_s=0.1)
        assert asyncio.get_running_loop().time() - before < 30
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream

    play(scenario, speed=1)


def test_chunks_arrive_as_they_are_written(play):
    async def scenario(engine, address):
        body = {**ENDLESS, "max_tokens": 20_000}
        url = f"http://{address}/v1/chat/completions"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            seen = 0
            async for line in answer.content:
                seen += b'"content":"' in line
                if seen == 5:
                    break
            assert engine._service.core.load == 1

    play(scenario, speed=1)


def test_many_engines_share_a_loop_and_cost_no_task(config):
    async def scenario():
        engines = [SimulatedEngine(config(pod=f"demo-{number}")) for number in range(100)]
        addresses = [await engine.start("127.0.0.1") for engine in engines]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        async with aiohttp.ClientSession() as session:
            for number in (0, 99):
                async with session.get(f"http://{addresses[number]}/health") as answer:
                    assert answer.headers["x-served-by"] == f"east/demo-{number}"
        await asyncio.gather(*(engine.stop() for engine in engines))

    asyncio.run(scenario())


def test_a_crash_resets_all_connections_and_is_reported_once(config):
    async def scenario():
        crashes = []
        engine = SimulatedEngine(config(speed=1), crashed=lambda: crashes.append(1))
        address = await engine.start("127.0.0.1")
        url = f"http://{address}/v1/chat/completions"
        async with aiohttp.ClientSession() as session:
            started = asyncio.Event()
            running = asyncio.create_task(read_stream(f"http://{address}", ENDLESS, started))
            await started.wait()
            with pytest.raises(aiohttp.ClientError):
                await session.post(url, json=ENDLESS, headers={"x-sim-fault": "crash"})
            with pytest.raises(aiohttp.ClientError):
                await running
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://{address}/health")
        assert crashes == [1]
        await engine.stop(grace_s=0)

    asyncio.run(scenario())


def test_a_slow_start_listens_late(config):
    async def scenario():
        engine = SimulatedEngine(config(startup_s=100))
        before = asyncio.get_running_loop().time()
        await engine.start("127.0.0.1")
        assert asyncio.get_running_loop().time() - before >= 0.09
        await engine.stop()

    asyncio.run(scenario())
