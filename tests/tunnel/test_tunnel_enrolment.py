"""Who may join, who may dial, and for whom: a hub and agents as processes, and callers that are neither."""

import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from modelplane.tunnel.authority import AgentAuthority, new_request
from tests.tunnel.conftest import wait
from tests.tunnel.test_tunnel_hub import call

pytestmark = pytest.mark.slow  # as test_tunnel_hub
IDENTITY = "/api/v1/namespaces/modelplane-system/secrets/modelplane-agent-identity"


def post(world, verb, body, certificate=None):
    context = ssl.create_default_context(cafile=world.folder / "hub-ca.crt")
    if certificate is not None:
        context.load_cert_chain(certificate)
    request = urllib.request.Request(f"https://127.0.0.1:{world.port}/v1/{verb}", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310  loopback
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def dial(world, certificate):
    """The status that a dial gets. 101: it is let in."""
    command = ["/usr/bin/curl", "-s", "-m", "3", "-o", "/dev/null", "-w", "%{http_code}", "--http1.1"]
    command += ["--cacert", str(world.folder / "hub-ca.crt"), *(["--cert", str(certificate)] if certificate else [])]
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    headers = (*upgrade, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    command += [word for header in headers for word in ("-H", header)]
    done = subprocess.run([*command, f"https://127.0.0.1:{world.port}/v1/tunnel"], capture_output=True, check=False)
    return int(done.stdout)


def join(world, cluster="east", token=None):
    key, csr = new_request()
    given = world.join_tokens[cluster] if token is None else token
    status, body = post(world, "join", {"cluster": cluster, "token": given, "csr": csr.decode()})
    path = world.folder / f"{time.monotonic_ns()}.pem"
    path.write_text(body.get("certificate", "") + key.decode())
    return status, body, path


@pytest.fixture(scope="module")
def hub_world(tmp_path_factory):
    from tests.tunnel.conftest import open_world

    with open_world(tmp_path_factory.mktemp("world")) as world:
        world.hub = world.start_hub()
        for cluster in ("east", "west", "north", "south"):
            world.enrol(cluster)
        world.enrol("late", now=time.time() - 25 * 3600)
        yield world


def test_a_join_token_is_used_once(hub_world):
    status, body, path = join(hub_world, "east")
    assert (status, dial(hub_world, path)) == (200, 101)
    status, body, _ = join(hub_world, "east")
    assert (status, body) == (401, {"error": "the join token is wrong, used or too old"})


@pytest.mark.parametrize(
    ("cluster", "token"),
    [("west", "wrong"), ("west", ""), ("nowhere", "x"), ("../x", "x"), ("late", None), ("a" * 300, "x")],
)
def test_who_may_not_join_learns_nothing_of_why(hub_world, cluster, token):
    status, body, _ = join(hub_world, cluster, token)
    assert (status, body) == (401, {"error": "the join token is wrong, used or too old"})


def test_a_token_of_another_cluster_does_not_join(hub_world):
    assert join(hub_world, "west", hub_world.join_tokens["north"])[0] == 401
    assert join(hub_world, "north")[0] == 200


@pytest.mark.parametrize("body", [{}, {"cluster": 1}, {"cluster": "south", "token": "x"}, [1]])
def test_a_request_that_cannot_be_read_is_refused(hub_world, body):
    assert post(hub_world, "join", body)[0] == 400


def test_a_request_that_is_too_large_is_refused(hub_world):
    with (
        pytest.raises(urllib.error.HTTPError, match="413"),
        urllib.request.urlopen(
            urllib.request.Request(f"https://127.0.0.1:{hub_world.port}/v1/join", b"x" * 100_000),
            context=ssl.create_default_context(cafile=hub_world.folder / "hub-ca.crt"),
        ),
    ):
        pass


def test_without_a_certificate_nobody_dials(hub_world):
    assert dial(hub_world, None) == 401


def test_a_certificate_of_another_authority_is_no_certificate(hub_world, tmp_path):
    """It names the cluster, and was not written here."""
    key, csr = new_request()
    forged = AgentAuthority.create(time.time()).client(csr, "south", time.time())
    path = tmp_path / "forged.pem"
    path.write_bytes(forged.certificate + key)
    assert dial(hub_world, path) in {0, 401}


def test_the_subject_of_a_request_is_not_believed(hub_world):
    """`south` joins with a request whose subject says something else; its certificate is for south alone."""
    status, body, path = join(hub_world, "south")
    described = subprocess.run(
        ["/usr/bin/openssl", "x509", "-noout", "-subject"],
        input=body["certificate"],
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    assert (status, described.strip()) == (200, "subject=CN = south")
    assert dial(hub_world, path) == 101
    code, refused = call(hub_world, "/version", "west", token=hub_world.proxy_tokens["west"])
    assert (code, refused["message"]) == (503, "the agent of cluster west is not connected")


@pytest.mark.submission
def test_a_certificate_renews_itself_and_the_one_before_ends_once_the_new_one_is_used(world):
    world.start_hub()
    world.enrol("east")
    _, _, first = join(world)
    key, csr = new_request()
    status, body = post(world, "renew", {"csr": csr.decode()}, first)
    second = world.folder / "second.pem"
    second.write_text(body["certificate"] + key.decode())
    assert (status, dial(world, first), dial(world, second)) == (200, 101, 101)
    assert (dial(world, first), post(world, "renew", {"csr": csr.decode()}, first)[0]) == (401, 401)


def test_an_agent_whose_record_is_deleted_is_disconnected(world):
    hub = world.start_hub()
    world.enrol("east")
    world.start_agent()
    world.connected(hub)
    world.control.request("DELETE", "/api/v1/namespaces/modelplane-system/secrets/east-agent")
    wait(lambda: '"an agent disconnected"' in hub.log.read_text())
    assert call(world, "/version")[0] == 401


def test_an_agent_without_a_token_says_what_it_needs(world):
    world.start_hub()
    agent = world.start_agent(token="")
    assert agent.wait(20) == 1
    assert "no identity and no join token" in agent.log.read_text()


def test_an_agent_with_a_wrong_token_ends_and_stores_nothing(world):
    world.start_hub()
    world.enrol("east")
    agent = world.start_agent(token="wrong")
    assert agent.wait(20) == 1
    assert "the hub refuses to join: the join token is wrong, used or too old" in agent.log.read_text()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        world.cluster.request("GET", IDENTITY)


def test_no_credential_of_the_cluster_is_on_the_control_plane(joined):
    """Neither the agent's token nor its key is in anything that the control plane keeps."""
    key = joined.cluster.request("GET", IDENTITY)["data"]["tls.key"]
    kept = json.dumps(joined.control.request("GET", "/api/v1/secrets"))
    assert len(joined.control.request("GET", "/api/v1/secrets")["items"]) == 3
    assert key not in kept
    assert joined.cluster.token not in kept
    assert joined.proxy_tokens["east"] not in kept
