"""Which hosts a user may name: addresses in every spelling, and names."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.outbound import CLUSTER_GATEWAYS, OutboundRule

NOTHING = OutboundRule()

REFUSED = [
    # loopback and unspecified
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
    "127.255.255.254", "[::1]", "::1", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
    "0", "0.0.0.0", "0x0", "[::]", "00000000000",  # noqa: S104  it is refused
    # link-local and metadata services
    "169.254.169.254", "169.254.170.2", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.16689662",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]", "[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    # private, shared, reserved, multicast, documentation
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1", "192.0.2.1", "203.0.113.7",
    "240.0.0.1", "255.255.255.255", "224.0.0.1", "[ff02::1]", "[fc00::1]", "[fd12:3456::1]", "[2001:db8::1]",
    "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::]", "012.0.0.1", "0xA.0.0.1", "167772161",
    # names
    "localhost", "LOCALHOST", "localhost.", "a.localhost", "kubernetes", "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local", "metadata.google.internal", "metadata.goog.internal", "printer.local",
    "db.corp", "router.lan", "nas.home", "x.home.arpa", "wiki.intranet",
    # no names at all
    "", ".", "a..b", "-a.example", "a_b.example", "exa mple.com", "\uff11\uff12\uff17.0.0.1", "a\n.example",
    "999.1.1.1", "1.2.3.4.5", "0x100000000",
]  # fmt: skip

ALLOWED = [
    "api.openai.com", "API.OpenAI.com", "api.example", "a.b-c.example.co", "8.8.8.8", "[2606:4700::1111]",
    "xn--bcher-kva.example", "1password.com", "134744072",
]  # fmt: skip


@pytest.mark.parametrize("host", REFUSED)
def test_internal_hosts_are_refused_in_every_spelling(host):
    assert NOTHING.refuse_host(host) is not None


def test_there_are_at_least_sixty_of_them():
    assert len(set(REFUSED)) >= 60


@pytest.mark.parametrize("host", ALLOWED)
def test_public_hosts_are_allowed(host):
    assert NOTHING.refuse_host(host) is None


@pytest.mark.parametrize(
    ("allow", "host", "expected"),
    [
        (["10.0.0.0/8"], "10.1.2.3", None),
        (["10.0.0.0/8"], "[::ffff:10.1.2.3]", "::ffff:a01:203, a reserved address"),
        (["10.0.0.0/8"], "192.168.0.1", "192.168.0.1, a private address"),
        (["10.1.2.3"], "10.1.2.3", None),
        (["llm.corp"], "llm.corp", None),
        (["llm.corp"], "LLM.corp.", None),
        (["llm.corp"], "a.llm.corp", "a.llm.corp is a name of an internal network (.corp)"),
        (["*.corp"], "a.llm.corp", None),
        (["*.corp"], "corp", "corp is a name of an internal network (.corp)"),
        (["localhost"], "127.0.0.1", "127.0.0.1, a loopback address"),
        (["fd00::/8"], "[fd00::7]", None),
        (["100.64.0.0/10"], "100.100.100.200", "100.100.100.200, a metadata service address"),
        (["100.100.100.200"], "100.100.100.200", None),
        (["0.0.0.0/0"], "169.254.169.254", "169.254.169.254, a metadata service address"),
        ([], "169.254.169.254", "169.254.169.254, a metadata service address"),
        ([], "kubernetes", "kubernetes is a name without a domain"),
    ],
)
def test_the_platform_team_allows_networks_and_names(allow, host, expected):
    assert OutboundRule.read(allow).refuse_host(host) == expected


@pytest.mark.parametrize("entry", ["", "10.0.0.0/33", "a b", "*", "*.", "http://a", "127.1", "a.b:80", "[::1]"])
def test_an_entry_that_is_neither_network_nor_name_is_an_error(entry):
    with pytest.raises(ValueError, match="is neither a network nor a host name"):
        OutboundRule.read(["10.0.0.0/8", entry])


METADATA = "169.254.169.254, a metadata service address"


@pytest.mark.parametrize(
    ("allow", "addresses", "permitted", "refusal"),
    [
        ([], [], (), ""),
        ([], ["93.184.215.14"], ("93.184.215.14",), ""),
        ([], ["93.184.215.14", "127.0.0.1"], ("93.184.215.14",), "127.0.0.1, a loopback address"),
        ([], ["10.0.0.1", "::1"], (), "10.0.0.1, a private address (and 1 more)"),
        ([], ["2606:4700::1111", "fd00::1"], ("2606:4700::1111",), "fd00::1, a private address"),
        ([], ["fe80::1%2"], (), "fe80::1%2, a link-local address"),
        ([], ["garbage"], (), "'garbage', which is not an address"),
        (["127.0.0.0/8"], ["127.0.0.1"], ("127.0.0.1",), ""),
        (["api.example"], ["127.0.0.1", "fd00::1"], ("127.0.0.1", "fd00::1"), ""),
        (["api.example"], ["169.254.169.254"], (), METADATA),
        (["api.example"], ["100.100.100.200"], (), "100.100.100.200, a metadata service address"),
        (["api.example"], ["::ffff:169.254.169.254"], (), "::ffff:a9fe:a9fe, a reserved address"),
        (["api.example"], ["fe80::7"], (), "fe80::7, a link-local address"),
        (["api.example", "fe80::/10"], ["fe80::7"], ("fe80::7",), ""),
        (["*.example", "169.254.169.254"], ["169.254.169.254"], ("169.254.169.254",), ""),
        (["0.0.0.0/0"], ["10.0.0.1", "169.254.7.7"], ("10.0.0.1",), "169.254.7.7, a link-local address"),
        (["169.254.7.0/24"], ["169.254.7.7"], ("169.254.7.7",), ""),
    ],
)
def test_every_address_of_a_name_is_judged(allow, addresses, permitted, refusal):
    found = OutboundRule.read(allow).judge("api.example", addresses)
    assert (found.permitted, found.refusal) == (permitted, refusal)


@pytest.mark.parametrize("host", ["10.0.0.7", "192.0.2.1", "127.0.0.1", "lb", "gw.corp", "a.elb.example", "[fd00::1]"])
def test_the_gateway_of_a_cluster_may_be_in_any_network(host):
    assert CLUSTER_GATEWAYS.refuse_host(host) is None


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "169.254.0.9", "fe80::1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"]
)
def test_no_gateway_of_a_cluster_is_where_metadata_services_are(address):
    assert CLUSTER_GATEWAYS.refuse_host(address) is not None
    assert CLUSTER_GATEWAYS.judge("lb", [address]).permitted == ()


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{0}", "0x{0:x}", "0{0:o}", "{1}", "[::ffff:{1}]"]))
def test_a_spelling_does_not_change_the_answer(number, spelling):
    address = ipaddress.IPv4Address(number)
    plain = NOTHING.refuse_address(address)
    found = NOTHING.refuse_host(spelling.format(number, address))
    # A mapped address is refused as such: nothing public is reached by it.
    assert (found is None) == (plain is None) or "::ffff" in spelling


@given(st.from_regex(r"\A(0x[0-9a-f]{1,9}|[0-9]{1,4})(\.(0x[0-9a-f]{1,9}|0?[0-9]{1,4})){0,4}\Z"))
def test_numbers_are_read_as_the_system_reads_them(text):
    try:
        expected = ipaddress.IPv4Address(socket.inet_aton(text))
    except OSError:
        return
    refusal = NOTHING.refuse_host(text)
    assert (refusal is None) == (NOTHING.refuse_address(expected) is None)
