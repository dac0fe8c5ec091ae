"""One model from its manifests to its end, with real clients, while requests keep coming.

apply → placed → ready → answered → scaled → its cluster fails → replaced → a node is drained → deleted. What is asked
of the plane about requests: none is lost that another replica could have served. A request that an engine had already
taken when the engine's machine lost power is lost; nobody may run a generation twice.
"""

import asyncio
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import openai
import pytest
import yaml

UNSERVED = "x-modelplane-unserved"
PLATFORM = ("-f", "examples/quickstart/1-hardware.yaml", "-f", "examples/quickstart/2-clusters.yaml")
MODEL = "examples/quickstart/3-model.yaml"


@dataclass(frozen=True)
class Asked:
    """One request: when it began and ended, how, by whom; `unserved` when a gateway says that no engine saw it."""

    began: float
    ended: float
    status: int | str
    served_by: str = ""
    unserved: bool = False
    pieces: int = 0


class Load:
    """Requests in a thread of their own, every few milliseconds, every fourth of them a stream."""

    def __init__(self, address):
        self._url = f"{address}/v1/completions"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.asked = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    async def _run(self):
        timeout = aiohttp.ClientTimeout(total=150)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as tasks:
            number = 0
            while not self._stop.is_set():
                number += 1
                tasks.create_task(self._ask(session, stream=number % 4 == 0))
                await asyncio.sleep(0.03)

    async def _ask(self, session, *, stream):
        began = time.monotonic()
        body = {"model": "qwen3-8b", "prompt": "hello", "max_tokens": 6, "ignore_eos": True, "stream": stream}
        try:
            async with session.post(self._url, json=body) as answer:
                text = await answer.text()
                by, unserved = answer.headers.get("x-served-by", ""), UNSERVED in answer.headers
                pieces = text.count("data: ")
                status = answer.status if not stream or "[DONE]" in text or answer.status != 200 else "cut short"
                self.asked.append(Asked(began, time.monotonic(), status, by, unserved, pieces))
        except (aiohttp.ClientError, TimeoutError) as error:
            self.asked.append(Asked(began, time.monotonic(), repr(error)))

    def failures(self, since=0.0):
        return [each for each in self.asked if each.status != 200 and each.began >= since]

    def servers(self, since):
        return {each.served_by.partition("/")[0] for each in self.asked if each.began >= since}

    def most_at_once(self):
        moments = sorted([(each.began, 1) for each in self.asked] + [(each.ended, -1) for each in self.asked])
        most = running = 0
        for _, step in moments:
            running += step
            most = max(most, running)
        return most

    def wait(self, count=30):
        """Until so many more were answered."""
        until = len(self.asked) + count
        while len(self.asked) < until:
            time.sleep(0.02)


def hasty_model():
    """The quickstart's model, with failover after a second."""
    for manifest in yaml.safe_load_all(Path(MODEL).read_text()):
        if manifest["kind"] == "ModelDeployment":
            manifest["spec"]["failover"] = {"gracePeriodSeconds": 1}
        yield manifest


def apply(plane, monkeypatch):
    monkeypatch.chdir(plane.root)
    plane.kubectl("apply", *PLATFORM)
    plane.ready("inferencecluster", "--all")
    said = plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(hasty_model()))
    assert said.splitlines() == [
        "modeldeployment.modelplane.ai/qwen3-8b created",
        "modelservice.modelplane.ai/chat created",
    ]
    plane.ready("modeldeployment/qwen3-8b", "modelservice/chat")
    assert plane.placed() == {"east": 1, "west": 1}


def answered(address):
    """A plain answer and a streamed one, by the client that users have."""
    with openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0) as client:
        question = {"model": "qwen3-8b", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 12}
        whole = client.chat.completions.with_raw_response.create(**question)
        text = whole.parse().choices[0].message.content
        assert whole.headers["x-served-by"].partition("/")[0] in {"east", "west"}
        pieces = [each.choices[0].delta.content for each in client.chat.completions.create(**question, stream=True)]
        assert "".join(filter(None, pieces)) == text
        assert sum(map(bool, pieces)) == 12


def scale(plane, load, replicas):
    plane.kubectl("scale", "md/qwen3-8b", f"--replicas={replicas}")
    plane.until(lambda: sum(plane.placed().values()) == replicas)
    plane.ready("modeldeployment/qwen3-8b")
    load.wait()
    assert load.failures() == []


def fail_east(plane, load):
    """All replicas go on, elsewhere; of the requests only those are lost that engines there had taken."""
    assert plane.sim("fail", "cluster", "east").startswith("cluster east failed")
    plane.kubectl("wait", "--for=condition=Ready=false", "inferencecluster/east", "--timeout=150s")
    plane.until(lambda: {each.partition("/")[0] for each in _endpoints(plane)} == {"west"})
    load.wait()
    dark = time.monotonic()
    plane.until(lambda: plane.placed().get("west") == 4)
    load.wait()
    lost = load.failures()
    assert [each for each in lost if each.unserved or each.began >= dark] == []
    assert len(lost) <= load.most_at_once()
    assert load.servers(dark) == {"west"}
    return len(lost)


def _endpoints(plane):
    return [f"{each['spec']['replica']['clusterName']}/{each['metadata']['name']}" for each in plane.objects("me")]


def recover_east(plane, load, lost):
    """What moved stays; what was left behind on east goes."""
    plane.sim("recover", "cluster", "east")
    plane.ready("inferencecluster/east")
    plane.until(lambda: plane.pods("east") == [])
    assert plane.placed() == {"west": 4}
    assert len(load.failures()) == lost


def drain_a_node(plane, load, lost):
    """Its pods start elsewhere first or after; nobody notices."""
    node = plane.pods("west")[0][1]
    assert "is cordoned" in plane.sim("drain", "node", "west", node)
    plane.until(lambda: node not in {each[1] for each in plane.pods("west")})
    plane.until(lambda: plane.placed() == {"west": 4})
    load.wait()
    assert len(load.failures()) == lost
    plane.sim("uncordon", "node", "west", node)


def delete(plane):
    """Nothing is left: no object, no engine, no port of one."""
    before = plane.ports()
    plane.kubectl("delete", "-f", MODEL, "--timeout=150s")
    plane.until(lambda: plane.pods("west") == [])
    plane.until(lambda: len(plane.ports()) == len(before) - 4)
    plane.kubectl("delete", *PLATFORM, "--timeout=150s")
    plane.until(lambda: plane.listed() <= {"Namespace", "Event", "CustomResourceDefinition"})
    assert plane.modelplane("sim", "show", "east")[0] == 1


@pytest.mark.submission
@pytest.mark.timeout(800)
def test_a_model_is_served_through_everything_and_leaves_nothing_behind(up, gone, monkeypatch):
    plane = up()
    apply(plane, monkeypatch)
    address = plane.kubectl("get", "ms", "chat", "-o", "jsonpath={.status.address}")
    answered(address)
    with Load(address) as load:
        load.wait()
        for replicas in (4, 2, 4):
            scale(plane, load, replicas)
        lost = fail_east(plane, load)
        recover_east(plane, load, lost)
        drain_a_node(plane, load, lost)
    delete(plane)
    family, ports = plane.family(), plane.ports()
    assert len(family) > 1
    plane.down()
    assert gone(family, ports)
    assert plane.output.splitlines()[-1] == "stopped"
    assert plane.stored() <= {("plane", kind) for kind in ("Namespace", "Event", "CustomResourceDefinition")}
