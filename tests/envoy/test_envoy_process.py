import asyncio
import json
import os
import socket
import ssl
import time
from dataclasses import replace

import aiohttp
import pytest

from modelplane.envoy import (
    ConfigRefusedError,
    EnvoyFailedError,
    EnvoyProcess,
    EnvoySettings,
    GatewayView,
    TlsCertificate,
    free_port,
    render,
)
from modelplane.plane.certificates import certificate_for_loopback
from tests.support.waiting import until

pytestmark = pytest.mark.e2e

HOST = "127.0.0.1"
NAMESPACE = "team-a"


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_envoy_starts_serves_and_leaves_nothing(play, build):
    async def scenario(world):
        _, pod = await world.engine("east")
        port = free_port()
        started = await world.envoy.start(render([build.edge("edge", port, {"r": (pod,)})]))
        assert started.updates == 3
        answer = await world.get(f"http://{HOST}:{port}/health", **{"modelplane-replica": "team-a/r"})
        assert (answer.status, answer.served_by) == (200, "east/demo-0")
        pid = world.envoy.pid
        await world.envoy.stop()
        assert world.envoy.pid is None
        assert not is_alive(pid)
        with pytest.raises(aiohttp.ClientConnectorError):
            await world.get(f"http://{HOST}:{port}/health")

    play(scenario)


def test_a_stopped_envoy_starts_again(play, simple):
    async def scenario(world):
        config = simple()
        for _ in range(2):
            await world.envoy.start(config)
            await world.envoy.stop()
        await world.envoy.stop()

    play(scenario)


def test_starting_twice_is_a_defect(play):
    async def scenario(world):
        await world.envoy.start()
        with pytest.raises(RuntimeError, match="already started"):
            await world.envoy.start()

    play(scenario)


def test_gateways_come_and_go_without_a_restart(play):
    async def scenario(world):
        await world.envoy.start()
        pid, ports = world.envoy.pid, [free_port() for _ in range(3)]
        views = [GatewayView(name=f"gate-{number}", host=HOST, port=port) for number, port in enumerate(ports)]
        for wanted in (views, views[1:], [], views[:1]):
            await world.envoy.apply(render(wanted))
            for view in views:
                url = f"http://{HOST}:{view.port}/"
                if view in wanted:
                    assert (await world.get(url)).status == 404
                else:
                    # A connection of its own: those from before are drained, not cut.
                    with pytest.raises(ConnectionRefusedError):
                        await asyncio.open_connection(HOST, view.port)
        assert world.envoy.pid == pid

    play(scenario)


def test_a_gateway_may_take_the_address_of_another(play):
    async def scenario(world):
        port = free_port()
        await world.envoy.start(render([GatewayView(name="old", host=HOST, port=port)]))
        await world.envoy.apply(render([GatewayView(name="new", host=HOST, port=port)]))
        assert (await world.get(f"http://{HOST}:{port}/")).status == 404

    play(scenario)


def test_a_gateway_with_an_identity_speaks_tls_to_those_who_do(play, build):
    certificate, key = (each.decode() for each in certificate_for_loopback(now=time.time()))

    async def scenario(world):
        _, pod = await world.engine("east")
        port = free_port()
        view = replace(build.edge("edge", port, {"r": (pod,)}), identities=(TlsCertificate(certificate, key),))
        await world.envoy.start(render([view]))
        asked = {"headers": {"modelplane-replica": "team-a/r"}, "ssl": ssl.create_default_context(cadata=certificate)}
        async with aiohttp.ClientSession() as client:
            for scheme in ("https", "http"):
                async with client.get(f"{scheme}://{HOST}:{port}/health", **asked) as answer:
                    assert answer.status == 200

    play(scenario)


def test_nothing_changed_is_nothing_written(play, simple):
    async def scenario(world):
        config = simple()
        await world.envoy.start(config)
        assert (await world.envoy.apply(config)).updates == 0

    play(scenario)


def broken_table(config, table):
    """A configuration that Envoy will not take, in one of its tables."""
    if table == "cds":
        bad = {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "bad", "type": "LOGICAL_DNS"}
        return replace(config, clusters={**config.clusters, "bad": bad}), "LOGICAL_DNS clusters must have a single host"
    host = {"name": "x", "domains": ["x"], "routes": [{"match": {"path_separated_prefix": "/a/"}}]}
    return replace(config, virtual_hosts={**config.virtual_hosts, "x": host}), "value does not match regex pattern"


@pytest.mark.parametrize("table", ["cds", "rds"])
def test_a_rejected_change_has_a_reason_and_is_rolled_back(play, build, table):
    async def scenario(world):
        (_, one), (_, two) = [await world.engine(cluster) for cluster in ("east", "west")]
        port = free_port()
        url, replica = f"http://{HOST}:{port}/health", {"modelplane-replica": "team-a/r"}
        await world.envoy.start(render([build.edge("edge", port, {"r": (one,)})]))
        wanted, reason = broken_table(render([build.edge("edge", port, {"r": (two,)})]), table)
        with pytest.raises(ConfigRefusedError, match=f"^Envoy rejected its {table} file: .*{reason}"):
            await world.envoy.apply(wanted)
        assert (await world.get(url, **replica)).served_by == "east/demo-0"
        await world.envoy.apply(render([build.edge("edge", port, {"r": (two,)})]))
        assert (await world.get(url, **replica)).served_by == "west/demo-1"

    play(scenario)


TOKEN = "!#$%&'*+-.^_`|~09azAZ"
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
DOTS_AND_SLASHES = ("/", "//", "/.", "/..", "/a//b/", "/a/../b")
ODD_PATHS = (*DOTS_AND_SLASHES, "/%2F", "/%00", "/a%20b", "/" + "x" * 1_000, "/!$&'()*+,;=:@~")


def odd_rules(build):
    change = build.headers(
        set=[{"name": TOKEN, "value": PRINTABLE}, {"name": "a", "value": "%REQ(x"}, {"name": "b", "value": "\t"}],
        add=[{"name": "x" * 256, "value": "y" * 4096}],
        remove=["content-length", "te", TOKEN],
    )
    ref = {"name": "pods", "port": 80, "weight": 1_000_000, "filters": [change]}
    common = {"backendRefs": [ref] * 16, "timeouts": {"request": "99999h99999h99999h99999h"}}
    for path in ODD_PATHS:
        yield {"matches": [build.prefix(path, "Exact")], "filters": [change], **common}
        yield {"matches": [build.prefix(path)], "filters": [change], **common}
        for to in ODD_PATHS:
            yield {"matches": [build.prefix(path)], "filters": [build.rewrite(to)], **common}
    yield {"matches": [{"headers": [{"name": TOKEN, "value": PRINTABLE}]}], **common}


def test_whatever_is_accepted_here_is_accepted_by_envoy(play, build):
    """One value that only Envoy refuses would stop every later change, so there must be none."""

    async def scenario(world):
        _, pod = await world.engine("east")
        view = GatewayView(
            name="a" + "b.c-d" * 50,
            host=HOST,
            port=free_port(),
            routes=tuple(build.route(f"odd-{number}", rule) for number, rule in enumerate(odd_rules(build))),
            services=(build.service("pods"),),
            slices=(
                *build.endpoint_slice("pods", pod),
                {**build.endpoint_slice("pods", pod)[0], "endpoints": [{"addresses": ["::1"]}]},
            ),
        )
        config = render([view])
        assert config.problems == ()
        await world.envoy.start(config)

    play(scenario)


def test_a_port_in_use_is_refused_and_hurts_no_other_gateway(play):
    async def scenario(world):
        port = free_port()
        first = GatewayView(name="first", host=HOST, port=port)
        await world.envoy.start(render([first]))
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            second = GatewayView(name="second", host=HOST, port=taken.getsockname()[1])
            with pytest.raises(ConfigRefusedError, match=r"Envoy rejected its lds file: .*Address already in use"):
                await world.envoy.apply(render([second]))
        assert (await world.get(f"http://{HOST}:{port}/")).status == 404

    play(scenario)


def test_a_configuration_refused_at_the_start_starts_nothing(play, simple):
    async def scenario(world):
        wanted, reason = broken_table(simple(), "cds")
        with pytest.raises(ConfigRefusedError, match=reason):
            await world.envoy.start(wanted)
        assert world.envoy.pid is None

    play(scenario)


def test_a_failed_start_reports_envoys_log(tmp_path):
    binary = tmp_path / "envoy"
    binary.write_text("#!/bin/sh\necho this is no Envoy\nexit 3\n")
    binary.chmod(0o700)

    async def scenario():
        envoy = EnvoyProcess(tmp_path / "data", EnvoySettings(binary=binary))
        with pytest.raises(EnvoyFailedError, match="Envoy exited with code 3: this is no Envoy"):
            await envoy.start()
        assert envoy.pid is None

    asyncio.run(scenario())


def test_an_envoy_that_died_is_noticed(play, simple):
    async def scenario(world):
        config = simple()
        await world.envoy.start(config)
        os.kill(world.envoy.pid, 9)
        assert await world.envoy.wait() == -9
        assert world.envoy.pid is None
        with pytest.raises(EnvoyFailedError, match="Envoy exited with code -9"):
            await world.envoy.apply(simple())
        await world.envoy.stop()
        await world.envoy.start(config)

    play(scenario)


def test_an_envoy_that_does_not_answer_is_not_waited_for(tmp_path, simple):
    async def scenario():
        envoy = EnvoyProcess(tmp_path, EnvoySettings(apply_s=0.2, stop_s=0.2))
        await envoy.start(simple())
        pid = envoy.pid
        os.kill(pid, 19)
        with pytest.raises(EnvoyFailedError, match=r"Envoy did not apply its configuration within 0.2 s"):
            await envoy.apply(simple())
        await envoy.stop()
        assert not is_alive(pid)

    asyncio.run(scenario())


def test_the_admin_interface_is_for_its_owner_only(play):
    async def scenario(world):
        await world.envoy.start()
        mode = (world.directory / "admin.sock").stat().st_mode
        assert mode & 0o077 == 0

    play(scenario)


def test_requests_are_logged_without_secrets(play, build):
    async def scenario(world):
        _, pod = await world.engine("east")
        port = free_port()
        await world.envoy.start(render([build.edge("edge", port, {"r": (pod,)})]))
        send = {"modelplane-replica": "team-a/r", "authorization": "Bearer secret-token"}
        await world.chat(f"http://{HOST}:{port}", send=send)
        await world.get(f"http://{HOST}:{port}/health?key=secret-query", **send)
        lines = await logged(world.envoy.access_log, 2)
        assert "secret" not in "".join(lines)
        first = json.loads(lines[0])
        assert {name: first[name] for name in ("gateway", "method", "path", "status", "pool", "upstream")} == {
            "gateway": "edge",
            "method": "POST",
            "path": "/v1/chat/completions",
            "status": 200,
            "pool": "edge/Service/team-a/r/80",
            "upstream": str(pod),
        }

    play(scenario)


async def logged(log, count):
    """The lines of a log once it has so many: Envoy writes them a fraction of a second later."""
    await until(lambda: log.exists() and len(log.read_text().splitlines()) >= count)
    return log.read_text().splitlines()


async def paths_of(log, count):
    return [json.loads(line)["path"] for line in await logged(log, count)]


def test_a_log_that_is_long_is_begun_anew_and_the_one_before_kept(play, simple):
    async def scenario(world):
        world.envoy = EnvoyProcess(world.directory, EnvoySettings(log_bytes=100))
        port = free_port()
        await world.envoy.start(simple(port))
        log = world.envoy.access_log
        assert not await world.envoy.rotate_log()
        for number in range(3):
            await world.get(f"http://{HOST}:{port}/{number}")
            assert await paths_of(log, 1) == [f"/{number}"]
            assert await world.envoy.rotate_log()
            assert await paths_of(log.with_name("access.log.1"), 1) == [f"/{number}"]
        assert not await world.envoy.rotate_log()
        await world.envoy.stop()
        assert not await world.envoy.rotate_log()

    play(scenario)


def test_a_stop_lets_answers_end_that_were_begun(play, build):
    async def scenario(world):
        port = free_port()
        _, pod = await world.engine("east", speed=1)
        await world.envoy.start(render([build.edge("edge", port, {"r": (pod,)})]))
        body = {"model": "demo", "prompt": "hello", "max_tokens": 64, "ignore_eos": True, "stream": True}
        sent = {"modelplane-replica": f"{NAMESPACE}/r"}
        async with world.session.post(f"http://{HOST}:{port}/v1/completions", json=body, headers=sent) as answer:
            await answer.content.readline()
            stopping = asyncio.create_task(world.envoy.stop())
            rest = await answer.content.read()
        await stopping
        assert rest.endswith(b"data: [DONE]\n\n")
        assert rest.count(b"data: ") >= 64

    play(scenario)


def test_a_stop_does_not_wait_for_ever(play, build):
    async def scenario(world):
        port = free_port()
        _, pod = await world.engine("east")
        world.envoy = EnvoyProcess(world.directory, EnvoySettings(drain_s=0.1))
        await world.envoy.start(render([build.edge("edge", port, {"r": (pod,)})]))
        sent = {"modelplane-replica": f"{NAMESPACE}/r", "x-sim-fault": "hang"}
        asked = asyncio.create_task(world.chat(f"http://{HOST}:{port}", send=sent))
        await asyncio.sleep(0.2)
        await world.envoy.stop()
        with pytest.raises(aiohttp.ClientError):
            await asked

    play(scenario)
