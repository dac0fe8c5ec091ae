"""A Backend, by where its endpoint is."""

import pytest

from modelplane.compose.backend_objects import (
    authority_map,
    backend,
    called_at,
    credential_filter,
    credential_name,
    hop_tls,
    provider_tls,
)
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.external import target_of

NAMED = {"fqdn": {"hostname": "api.example", "port": 443}}
NUMBERS = [{"ip": {"address": each, "port": 443}} for each in ("203.0.113.5", "203.0.113.6")]
BOTH = ("203.0.113.5", "203.0.113.6")


@pytest.mark.parametrize(
    ("url", "addresses", "by_name", "expected"),
    [
        ("https://api.example", BOTH, False, NUMBERS),
        ("https://api.example", (), False, [NAMED]),
        ("https://api.example", BOTH, True, [NAMED]),
        ("http://192.0.2.9:8080", (), True, [{"ip": {"address": "192.0.2.9", "port": 8080}}]),
    ],
    ids=["addresses that were checked", "no resolver", "a replica whose cluster has a name", "a replica"],
)
def test_where_it_is_called(url, addresses, by_name, expected):
    assert called_at(target_of(url), addresses, by_name=by_name) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://api.example", None),
        ("https://api.example", {"wellKnownCACertificates": "System", "sni": "api.example"}),
        ("https://192.0.2.9", {"wellKnownCACertificates": "System"}),
    ],
)
def test_what_proves_a_provider(url, expected):
    assert provider_tls(target_of(url)) == expected


def test_a_backend_names_what_is_beside_it(problems):
    authority, added = authority_map("b", "n", "PEM"), credential_filter("b", "n", CredentialRef("s", "k", "x-api-key"))
    tls = hop_tls("b", "mun-b")
    made = backend("b", "n", NUMBERS, tls)
    assert tls["caCertificateRefs"][0]["name"] == authority["metadata"]["name"]
    assert (tls["sni"], authority["data"]) == ("mun-b.inference-gateway.modelplane.internal", {"ca.crt": "PEM"})
    injection = added["spec"]["credentialInjection"]
    assert (injection["header"], injection["credential"]) == ("x-api-key", {"valueRef": {"name": credential_name("b")}})
    assert "tls" not in backend("b", "n", NUMBERS)["spec"]
    assert [problem for item in (made, authority, added) for problem in problems(item)] == []
