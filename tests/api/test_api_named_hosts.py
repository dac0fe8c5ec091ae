"""Hosts in settings that are not ours: every form in which an exporter takes an address, and texts that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.named_hosts import host_of, is_address_field, named_hosts

ANYWHERE = [
    # URLs, also with something before them
    ("https://a.example/x", ("a.example",)),
    ("HTTP://10.0.0.1:80", ("10.0.0.1",)),
    ("IngestionEndpoint=https://a.example/;Live=http://b.example", ("a.example", "b.example")),
    ("http://a.example/,169.254.169.254:9092", ("a.example", "169.254.169.254")),
    ("http://user:pw@a.example", None),
    ("http://${env:HOST}/", None),
    ("dns:///10.0.0.1:4317", None),
    ("unix:///run/x.sock", None),
    # a host and its port
    ("10.0.0.1:9092", ("10.0.0.1",)),
    ("a.example:9092", ("a.example",)),
    ("localhost:9092", ("localhost",)),
    ("[::1]:9092", ("[::1]",)),
    ("2130706433:80", ("2130706433",)),
    ("0x7f000001:80", ("0x7f000001",)),
    ("a.example:1, b.example:2\nc.example:3", ("a.example", "b.example", "c.example")),
    ("user:secret@tcp(10.0.0.1:3306)/db", ("10.0.0.1",)),
    ("dns:10.0.0.1:4317", None),
    ("IPV4:10.0.0.1:4317", None),
    # addresses alone
    ("10.0.0.1", ("10.0.0.1",)),
    ("fd00:ec2::254", ("fd00:ec2::254",)),
    ("[::1]", ("[::1]",)),
    # no address
    ("", ()),
    ("zstd", ()),
    ("30s", ()),
    ("team:42", ()),
    ("12:30", ()),
    ("2026-01-01T10:00:00Z", ()),
    ("${env:TEAM}", ()),
    ("sha256:0123abcd", ()),
    ("/v1/metrics", ()),
    ("a.example", ()),
    ("a.example:0123456", ()),
]
IN_AN_ADDRESS_FIELD = [
    ("localhost", ("localhost",)),
    ("kafka:9092", ("kafka",)),
    ("kafka-0:9092,kafka-1:9092", ("kafka-0", "kafka-1")),
    ("10.0.0.1", ("10.0.0.1",)),
    ("::1", ("::1",)),
    ("https://a.example", ("a.example",)),
    ("", ()),
    ("${env:BROKER}", None),
    ("a.example:${env:PORT}", None),
    ("/run/x.sock", None),
    ("a.example:99999", ("a.example",)),
]


@pytest.mark.parametrize(("text", "hosts"), ANYWHERE)
def test_hosts_of_a_text(text, hosts):
    assert named_hosts(text) == hosts


@pytest.mark.parametrize(("text", "hosts"), IN_AN_ADDRESS_FIELD)
def test_hosts_of_a_field_that_has_an_address(text, hosts):
    assert named_hosts(text, is_address=True) == hosts


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("endpoint", "Endpoint", "metrics_endpoint", "endpoints", "brokers", "proxy_url", "dsn", "address"), True),
        (("host", "hosts", "servers", "uri", "addr", "remote_addr", "addresses"), True),
        (("compression", "headers", "hostname", "url_path", "server_name_override", "topic", "ghost", "curls"), False),
    ],
)
def test_which_fields_have_an_address(names, expected):
    assert {is_address_field(name) for name in names} == {expected}


@pytest.mark.parametrize(
    ("authority", "host"),
    [("a:1", "a"), ("a", "a"), ("[::1]:1", "[::1]"), ("a:0", None), ("a:65536", None), ("a@b", None), ("", None)],
)
def test_the_host_of_an_authority(authority, host):
    assert host_of(authority) == host


@given(st.ip_addresses(), st.integers(1, 65535), st.sampled_from(("", "x=", "(", "http://", "tcp://")))
def test_an_address_with_a_port_is_seen_behind_anything(address, port, before):
    host = f"[{address}]" if address.version == 6 else str(address)
    assert named_hosts(f"{before}{host}:{port}") == (host,)


@given(st.text(), st.booleans())
def test_any_text_is_read(text, is_address):
    found = named_hosts(text, is_address=is_address)
    assert found is None or all(found)
