"""Every way out, with real DNS: where connections go when names lead inside, and when they change their mind.

All addresses are this machine (`own_network`), so a connection that should not be made would be answered, and is seen.
"""

import asyncio

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelEndpoint
from modelplane.api.outbound import OutboundRule, _address
from modelplane.compose import model_endpoint
from modelplane.compose.contract import ComposeRequest
from modelplane.compose.provider_models import ListRequest
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.transport import TransferTimeouts, WebClient
from modelplane.kube import API_SERVERS, KubeClient, Unreachable, config_of
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.resolver import HostResolver, look_up
from modelplane.router.provider_lists import fetch_models
from tests.api.test_api_outbound import REFUSED
from tests.support.own_network import DnsServer, EveryAddress, in_own_network

PUBLIC, PUBLIC6, METADATA, PRIVATE = "93.184.215.14", "2606:4700::1111", "169.254.169.254", "10.0.0.7"
TEXTS = [host for host in REFUSED if host and host.isascii() and host.isprintable() and " " not in host]
ANSWERS = sorted({str(found) for host in REFUSED if (found := _address(host)) is not None})
TIMEOUTS = TransferTimeouts(connect_s=2.0, read_s=5.0)

pytestmark = pytest.mark.submission


def name_of(answer):
    return f"n{ANSWERS.index(answer)}.example"


def tried(url, allow=()):
    """What a client of the loader gets: a body, or a reason."""
    client = WebClient(OutboundRule.read(allow), TIMEOUTS)
    try:
        return client.get(url, {"Connection": "close"}).small().decode()
    except HydrateError as error:
        return error.reason.value
    finally:
        client.abort()


def listed(url):
    """What a provider's list of models gives."""
    try:
        return fetch_models(ListRequest(f"{url}/v1/models"))
    except HydrateError as error:
        return error.reason.value


def composed(url, resolver):
    """The reason and the addresses of a ModelEndpoint, with the system's resolver."""
    item = {"metadata": {"name": "up", "namespace": "team"}, "spec": {"url": url}}
    required = {"gateway": ({"metadata": {"name": "default"}, "spec": {}},)}
    found = model_endpoint.compose(ComposeRequest(decode(ModelEndpoint, item), {}, required, resolve=resolver))
    return found.conditions[0].reason.value, list(found.status.addresses) if found.status else []


def all_stories():
    """In one process: to start it takes longer than what it does."""
    return {
        story.__name__: story()
        for story in (every_spelling, several_addresses, redirects, api_servers, endpoints_over_time)
    }


@pytest.fixture(scope="module")
def stories():
    return in_own_network(all_stories)


def every_spelling():
    names = {name_of(answer): [[answer]] for answer in ANSWERS}
    with DnsServer(names), EveryAddress() as everywhere:
        reached = tried(f"http://{PUBLIC}:8080/")
        by_text = {text: tried(f"http://{text}:8080/") for text in TEXTS}
        by_answer = {answer: tried(f"http://{name_of(answer)}:8080/") for answer in ANSWERS}
        by_list = {answer: listed(f"http://{name_of(answer)}:8080") for answer in ANSWERS}
        by_endpoint = {answer: composed(f"https://{name_of(answer)}", look_up) for answer in ANSWERS}
        return reached, by_text, by_answer, by_list, by_endpoint, everywhere.called


def test_no_spelling_and_no_answer_leads_inside(stories):
    reached, by_text, by_answer, by_list, by_endpoint, called = stories["every_spelling"]
    assert reached == PUBLIC
    assert len(by_text) >= 60
    assert {text: found for text, found in by_text.items() if found not in {"OutboundRefused", "SourceInvalid"}} == {}
    assert len(by_answer) >= 35
    assert set(by_answer.values()) == set(by_list.values()) == {"OutboundRefused"}
    assert {answer: found for answer, found in by_endpoint.items() if found != ["OutboundRefused", []]} == {}
    assert called == [PUBLIC]


def several_addresses():
    names = {
        "mixed.example": [[PRIVATE, PUBLIC]],
        "six.example": [["::1", PUBLIC6]],
        "alias.example": [["inside.corp", PRIVATE]],
        "chain.example": [["other.example", "api.example", PUBLIC]],
        "llm.corp": [[PRIVATE]],
        "bad.corp": [[METADATA]],
        "silent.example": [None],
    }
    with DnsServer(names), EveryAddress() as everywhere:
        found = {
            "one of two is inside": tried("http://mixed.example:8080/"),
            "one of two is inside, IPv6": tried("http://six.example:8080/"),
            "an alias of a name inside": tried("http://alias.example:8080/"),
            "an alias of an alias": tried("http://chain.example:8080/"),
            "allowed by name": tried("http://llm.corp:8080/", ["llm.corp"]),
            "the alias is allowed and the name is not": tried("http://alias.example:8080/", ["inside.corp"]),
            "allowed by name, at a metadata service": tried("http://bad.corp:8080/", ["*.corp"]),
            "no answer": tried("http://silent.example:8080/"),
        }
        return (
            found,
            [composed(f"http://{name}", look_up) for name in ("mixed.example", "six.example")],
            everywhere.called,
        )


def test_addresses_that_are_refused_are_left_out(stories):
    found, endpoints, called = stories["several_addresses"]
    assert found == {
        "one of two is inside": PUBLIC,
        "one of two is inside, IPv6": PUBLIC6,
        "an alias of a name inside": "OutboundRefused",
        "an alias of an alias": PUBLIC,
        "allowed by name": PRIVATE,
        "the alias is allowed and the name is not": "OutboundRefused",
        "allowed by name, at a metadata service": "OutboundRefused",
        "no answer": "SourceUnreachable",
    }
    assert endpoints == [["RoutePending", [PUBLIC]], ["RoutePending", [PUBLIC6]]]
    assert set(called) == {PUBLIC, PUBLIC6, PRIVATE}


def redirected(request, here):
    """The path is where to go."""
    if here != PUBLIC or request.path == "/":
        return 200, {}, here.encode()
    return 302, {"Location": request.path[1:], "Connection": "close"}, b""


def redirects():
    targets = [
        f"http://{text}:8080/" for text in (METADATA, "0xa9fea9fe", "inside.example", "[::ffff:a9fe:a9fe]", "127.1")
    ]
    names = {
        "api.example": [[PUBLIC]],
        "inside.example": [[METADATA]],
        "rebound.example": [[PUBLIC], [METADATA]],
        "again.example": [[PUBLIC], [PUBLIC], [METADATA]],
    }
    with DnsServer(names) as dns, EveryAddress(answer=redirected) as everywhere:
        found = {
            **{target: tried(f"http://api.example:8080/{target}") for target in targets},
            "back": tried(f"http://api.example:8080/http://{PUBLIC}:8080/"),
            "checked is called": tried("http://rebound.example:8080/"),
            "the next connection": tried("http://rebound.example:8080/"),
            "changed before a redirect to itself": tried("http://again.example:8080/http://again.example:8080/"),
            "and before the next": tried("http://again.example:8080/"),
        }
        return found, dns.asked, everywhere.called


def test_each_redirect_and_each_connection_is_checked_and_nothing_is_resolved_twice(stories):
    found, asked, called = stories["redirects"]
    *inside, back, checked, later, itself, last = found.values()
    assert inside == ["OutboundRefused"] * 5
    assert [back, checked, later, itself, last] == [PUBLIC, PUBLIC, "OutboundRefused", PUBLIC, "OutboundRefused"]
    assert (asked["rebound.example"], asked["again.example"]) == (2, 3)
    assert set(called) == {PUBLIC}


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://HOST:8080"}}]
users: [{name: u, user: {token: t}}]
"""


async def version_of(client):
    try:
        return await client.version()
    except Unreachable as error:
        return str(error)


def versions(_request, here):
    return 200, {"Content-Type": "application/json"}, b'{"gitVersion": "%s"}' % here.encode()


def api_servers():
    names = {
        "api.example": [[PRIVATE]],
        "two.example": [["fe80::1", PRIVATE]],
        "meta.internal": [[METADATA]],
        "bad.example": [[METADATA]],
        "mapped.example": [["::ffff:169.254.169.254"]],
        "rebound.example": [[PRIVATE], [METADATA]],
    }

    async def story():
        found = {}
        for host in names:
            client = KubeClient(
                config_of(KUBECONFIG.replace("HOST", host), "test", insecure=True), outbound=API_SERVERS
            )
            found[host] = [await version_of(client) for _ in range(2)]
            await client.close()
        client = KubeClient(
            config_of(KUBECONFIG.replace("HOST", "rebound.example"), "test", insecure=True), outbound=API_SERVERS
        )
        found["another client"] = [await version_of(client)]
        await client.close()
        return found

    with DnsServer(names), EveryAddress(answer=versions) as everywhere:
        return asyncio.run(story()), everywhere.called


def test_the_api_of_a_kubeconfig_may_be_private_and_no_metadata_service(stories):
    found, called = stories["api_servers"]
    refused = "ConnectError: the outbound rule refuses {0}: {1}"
    metadata = f"{METADATA}, a metadata service address"
    assert found == {
        "api.example": [PRIVATE] * 2,
        "two.example": [PRIVATE] * 2,
        "meta.internal": [refused.format("meta.internal", metadata)] * 2,
        "bad.example": [refused.format("bad.example", metadata)] * 2,
        "mapped.example": [refused.format("mapped.example", "::ffff:a9fe:a9fe, a reserved address")] * 2,
        "rebound.example": [PRIVATE] * 2,
        "another client": [refused.format("rebound.example", metadata)],
    }
    assert set(called) == {PRIVATE}


def endpoints_over_time():
    """The resolver of the control plane, in the background."""

    async def settled(resolver, host, before):
        for _ in range(500):
            if (found := resolver(host)) not in (None, before):
                return found
            await asyncio.sleep(0.01)
        return found

    async def story(dns):
        resolver = HostResolver(SystemClock())
        first = composed("https://api.example", resolver)
        await settled(resolver, "api.example", None)
        second = composed("https://api.example", resolver)
        dns.now("api.example", [METADATA])
        third = composed("https://api.example", resolver)
        resolver.close()
        return first, second, third

    with DnsServer({"api.example": [[PUBLIC]]}) as dns:
        return asyncio.run(story(dns))


def test_an_endpoint_has_what_was_resolved_until_it_is_resolved_again(stories):
    first, second, third = stories["endpoints_over_time"]
    assert (first, second, third) == (["Unresolved", []], ["RoutePending", [PUBLIC]], ["RoutePending", [PUBLIC]])
