"""The control plane's clients reach a cluster through its agent, as if its API server were there."""

import asyncio
import http.client
import json
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from modelplane.kube import GroupVersionResource, Informer, KubeClient, Query, config_of
from tests.support.kube_api import running
from tests.support.waiting import until
from tests.tunnel.conftest import wait

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
pytestmark = pytest.mark.slow  # a hub, an agent and two API servers
PATH = "/api/v1/namespaces/default/configmaps"


def context(world):
    return ssl.create_default_context(cafile=world.folder / "hub-ca.crt")


def call(world, path, cluster="east", *, method="GET", token=None, body=None, **headers):
    url = f"https://127.0.0.1:{world.proxy_port}/clusters/{cluster}{path}"
    given = {"Authorization": f"Bearer {token or world.proxy_tokens['east']}", **headers}
    request = urllib.request.Request(url, body, given, method=method)
    try:
        with urllib.request.urlopen(request, context=context(world)) as answer:  # noqa: S310  loopback
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_a_list_of_many_mebibytes_is_whole(joined):
    for number in range(12):
        joined.cluster.config_map(f"big-{number}", 900_000)
    status, found = call(joined, PATH)
    sizes = [len(item["data"]["x"]) for item in found["items"] if item["metadata"]["name"].startswith("big-")]
    assert (status, sizes) == (200, [900_000] * 12)


def test_writes_go_through_with_their_bodies_and_are_refused_as_the_cluster_does(joined):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"x": "é" * 200_000}}
    json_type = {"Content-Type": "application/json"}
    words = {"method": "POST", "body": json.dumps(body).encode()}
    assert call(joined, PATH, **words, **json_type)[0] == 201
    status, refused = call(joined, PATH, **words, **json_type)
    assert (status, refused["reason"]) == (409, "AlreadyExists")
    assert joined.cluster.request("GET", f"{PATH}/made")["data"] == body["data"]
    assert call(joined, f"{PATH}/made", method="DELETE")[0] == 200


def test_our_own_client_watches(joined):
    async def story():
        client = KubeClient(config_of(joined.kubeconfig().read_text(), "the test"))
        seen = []
        informer = Informer(client, Query(CONFIG_MAPS, "default"), lambda raw: raw["metadata"]["name"])
        informer.listen(lambda events: seen.extend((event.change.value, event.key.name) for event in events))
        async with running(informer.run()):
            await informer.wait_synced()
            seen.clear()
            await asyncio.to_thread(joined.cluster.config_map, "watched")
            await until(lambda: ("added", "watched") in seen)
            await asyncio.to_thread(joined.cluster.request, "DELETE", f"{PATH}/watched")
            await until(lambda: ("deleted", "watched") in seen)
        await client.close()

    asyncio.run(story())


def test_kubectl_reaches_the_cluster(joined, tmp_path):
    def kubectl(*words):
        command = ["/usr/bin/kubectl", f"--kubeconfig={joined.kubeconfig()}", "--cache-dir", str(tmp_path), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    made = kubectl("create", "configmap", "typed", "--from-literal=a=b")
    assert made.returncode == 0, made.stderr
    assert kubectl("get", "configmap", "typed", "-o", "jsonpath={.data.a}").stdout == "b"
    assert joined.cluster.request("GET", f"{PATH}/typed")["data"] == {"a": "b"}


@pytest.mark.parametrize(
    ("cluster", "token", "status", "words"),
    [
        ("east", "wrong", 401, "not one for this cluster"),
        ("west", None, 401, "not one for this cluster"),
        ("north", None, 401, "not one for this cluster"),
        ("east-agent%2f..", None, 401, "not one for this cluster"),
    ],
)
def test_a_token_is_for_one_cluster(joined, cluster, token, status, words):
    code, refused = call(joined, PATH, cluster, token=token)
    assert (code, words in refused["message"], refused["kind"]) == (status, True, "Status")


def test_a_cluster_whose_agent_is_away_says_so(joined):
    code, refused = call(joined, PATH, "west", token=joined.proxy_tokens["west"])
    assert (code, refused["message"]) == (503, "the agent of cluster west is not connected")


def test_upgrades_are_refused(joined):
    connection = http.client.HTTPSConnection("127.0.0.1", joined.proxy_port, context=context(joined))
    headers = {"Authorization": f"Bearer {joined.proxy_tokens['east']}", "Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    connection.request("POST", "/clusters/east/api/v1/namespaces/default/pods/p/exec", headers=headers)
    answer = connection.getresponse()
    refused = json.load(answer)
    connection.close()
    assert (answer.status, refused["reason"]) == (501, "NotImplemented")


def test_a_slow_reader_holds_up_nobody_else(joined):
    """It stops its own stream after the credit, and gets everything in the end."""
    for number in range(8):
        joined.cluster.config_map(f"slow-{number}", 900_000)
    slow = http.client.HTTPSConnection("127.0.0.1", joined.proxy_port, context=context(joined))
    headers = {"Authorization": f"Bearer {joined.proxy_tokens['east']}"}
    slow.request("GET", f"/clusters/east{PATH}", headers=headers)
    answer = slow.getresponse()
    answer.read(1000)
    began = time.monotonic()
    assert [call(joined, f"{PATH}/slow-0")[0] for _ in range(5)] == [200] * 5
    assert time.monotonic() - began < 5
    rest = answer.read()
    slow.close()
    assert len(rest) > 8 * 900_000


@pytest.mark.submission
def test_the_connection_is_shown_on_the_cluster(world):
    existing = {"secretRef": {"name": "east-kubeconfig"}}
    body = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east"},
        "spec": {"cluster": {"source": "Existing", "existing": existing}, "nodePools": []},
    }
    world.control.request("POST", "/apis/modelplane.ai/v1alpha1/inferenceclusters", body)
    hub = world.start_hub()
    world.enrol("east")
    agent = world.start_agent()
    world.connected(hub)
    first = wait(lambda: (state := world.annotation()).get("connected") and state)
    later = wait(lambda: (state := world.annotation())["heartbeat"] > first["heartbeat"] and state)
    assert later["since"] == first["since"]
    agent.kill()
    gone = wait(lambda: not (state := world.annotation())["connected"] and state)
    assert gone["since"] > first["since"]
    world.start_agent(token="")
    back = wait(lambda: (state := world.annotation())["connected"] and state)
    hub.terminate()
    assert hub.wait(20) == 128 + signal.SIGTERM
    ended = world.annotation()
    assert (ended["connected"], ended["since"]) == (True, back["since"])  # a hub that ends says nothing of agents


@pytest.mark.submission
def test_a_tunnel_that_breaks_comes_back_with_the_same_identity(world):
    hub = world.start_hub()
    world.enrol("east")
    agent = world.start_agent()
    world.connected(hub)
    agent.kill()
    wait(lambda: call(world, PATH)[0] == 503)
    again = world.start_agent(token="")
    world.connected(hub, times=2)
    assert call(world, PATH)[0] == 200
    hub.kill()
    other = world.start_hub()
    world.connected(other)
    assert call(world, PATH)[0] == 200
    assert again.poll() is None
