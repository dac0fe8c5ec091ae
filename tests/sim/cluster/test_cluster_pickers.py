"""Pods that pick: which they are, whom they see of their pool, and that the program behind one really serves."""

import asyncio
import json

import pytest

from modelplane.api.errors import InputError
from modelplane.api.objects import manifest
from modelplane.apiserver.store.database import Database
from modelplane.compose.picker import picker_config
from modelplane.epp.config.config import load
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.engines import LocalEngines
from modelplane.sim.cluster.pickers import Pickers, PoolPods, picker_container, picker_port
from modelplane.sim.cluster.settings import LISTENS_ON
from tests.support.waiting import until

NAMESPACE = "team"


def picker_pod(*args, name="picker", volumes=()):
    spec = {"containers": [{"name": name, "args": list(args)}], "volumes": list(volumes)}
    return manifest("v1", "Pod", "chooser", namespace=NAMESPACE, spec=spec)


@pytest.mark.parametrize(
    ("pod", "port"),
    [
        (picker_pod("--pool-name=p"), 9002),
        (picker_pod("--pool-name", "p", "--grpc-port", "7"), 7),
        (picker_pod("-pool-name=p", "-grpc-port=7"), 7),
        (picker_pod("--grpc-port=7"), None),
        (picker_pod("--pool-name=p", name="main"), 9002),
        (picker_pod("--pool-name=p", name="other"), None),
    ],
)
def test_a_picker_says_which_pool_it_is_for(pod, port):
    found = picker_container(pod)
    assert (None if found is None else picker_port(found)) == port


def engine_pod(number, *, ready=True, app="a"):
    pod = manifest("v1", "Pod", f"pod-{number}", namespace=NAMESPACE, spec={"containers": []})
    pod["metadata"] |= {"labels": {"app": app}, "annotations": {LISTENS_ON: f"8000=127.0.0.1:{number}"}}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {**pod, "status": {"phase": "Running", "podIP": f"10.0.0.{number}", "conditions": conditions}}


POOL = manifest(
    "inference.networking.k8s.io/v1",
    "InferencePool",
    "p",
    namespace=NAMESPACE,
    spec={"selector": {"matchLabels": {"app": "a"}}, "targetPorts": [{"number": 8000}]},
)


@pytest.fixture(name="store")
def cluster_store():
    with Database(None, clock=SystemClock()) as database:
        yield database.store("east")


def test_the_pool_is_its_ready_pods_where_they_really_answer(store):
    async def main():
        source, heard = PoolPods(store, NAMESPACE, "p"), []
        source.on_change(lambda found: heard.append([endpoint.address for endpoint in found]))
        assert not source.known
        for pod in (engine_pod(1), engine_pod(2, ready=False), engine_pod(3, app="b")):
            store.create(pod)
        await source.start()
        assert (source.known, source.current) == (True, ())
        store.create(POOL)
        (first,) = source.current
        assert (first.name, first.address, first.labels) == ("team/pod-1", "127.0.0.1:1", {"app": "a"})
        store.create(engine_pod(4))
        assert source.current[0] is first
        store.delete(ObjectRef("", "Pod", NAMESPACE, "pod-1"))
        await source.stop()
        store.delete(ObjectRef("", "Pod", NAMESPACE, "pod-4"))
        assert heard == [["127.0.0.1:1"], ["127.0.0.1:1", "127.0.0.1:4"], ["127.0.0.1:4"]]

    asyncio.run(main())


def test_pickers_that_name_the_same_peers_share_and_others_do_not(store):
    async def main():
        pickers = Pickers()
        config = f"--config-text={json.dumps(picker_config(disaggregated=False))}"
        a, b, alone = [
            await pickers.start(picker_pod("--pool-name=p", f"--peers={name}:9004", config), store)
            for name in ("pickers", "pickers", "others")
        ]
        apart = await pickers.start(picker_pod("--pool-name=p", config), store)

        def program(running):
            return pickers._programs[running].runner

        def known():
            return [each.peers and each.peers.peers for each in map(program, (a, b, alone, apart))]

        await until(lambda: known() == [1, 1, 0, None])
        await pickers.stop(b)
        await until(lambda: program(a).peers.peers == 0)
        for each in (a, alone, apart):
            await pickers.stop(each)

    asyncio.run(main())


def config_map(text):
    return {**manifest("v1", "ConfigMap", "how", namespace=NAMESPACE), "data": {"config.yaml": text}}


MOUNTED = picker_pod(
    "--pool-name=p", "--config-file=/etc/picker/config.yaml", volumes=[{"name": "c", "configMap": {"name": "how"}}]
)


def test_the_program_of_the_pod_serves_with_the_configuration_that_it_mounts(store):
    async def main():
        store.create(POOL)
        store.create(config_map(str(picker_config(disaggregated=True)).replace("'", '"')))
        engines = LocalEngines()
        running = await engines.start_picker(MOUNTED, store)
        _, writer = await asyncio.open_connection(running.host, running.port)
        writer.close()
        await engines.stop(running, grace_s=0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(running.host, running.port)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_configuration_that_cannot_be_read_is_said(store):
    store.create(config_map("kind: Nonsense"))
    with pytest.raises(InputError, match="the configuration of the picker"):
        asyncio.run(LocalEngines().start_picker(MOUNTED, store))


@pytest.mark.parametrize("disaggregated", [False, True])
def test_what_we_render_is_understood(disaggregated):
    assert load(str(picker_config(disaggregated=disaggregated)).replace("'", '"'))
