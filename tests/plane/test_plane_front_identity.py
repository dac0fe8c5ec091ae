"""Which certificate the front door shows, and what is said of one that it cannot."""

import base64

import pytest

from modelplane.api.errors import InputError
from modelplane.api.objects import manifest
from modelplane.envoy import TlsCertificate
from modelplane.plane.certificates import certificate_for_loopback
from modelplane.plane.front_identity import hostname_of, identities_of

NOW_S = 1_800_000_000.0
CERTIFICATE, KEY = (each.decode() for each in certificate_for_loopback(now=NOW_S))
OTHER_KEY = certificate_for_loopback(now=NOW_S)[1].decode()


def gateway(*references):
    tls = {"tls": {"certificateRefs": list(references)}} if references else {}
    listener = {"name": "front", "port": 443, "protocol": "HTTPS", **tls}
    return manifest("gateway.networking.k8s.io/v1", "Gateway", "modelplane", spec={"listeners": [listener]})


def secret(**data):
    encoded = {name.replace("_", "."): base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return {**manifest("v1", "Secret", "front", namespace="modelplane-system"), "data": encoded}


@pytest.mark.parametrize("hostname", [None, "models.example", "*.models.example"])
def test_its_host_name_is_that_of_its_listener(hostname):
    listener = {"name": "front", "port": 80, **({"hostname": hostname} if hostname else {})}
    found = manifest("gateway.networking.k8s.io/v1", "Gateway", "modelplane", spec={"listeners": [listener]})
    assert hostname_of(found) == hostname


def test_a_gateway_without_a_certificate_has_no_identity():
    assert identities_of(gateway(), {}.get) == ()


def test_the_secret_that_the_gateway_names_is_shown():
    found = identities_of(gateway({"name": "front"}), lambda _ref: secret(tls_crt=CERTIFICATE, tls_key=KEY))
    assert found == (TlsCertificate(CERTIFICATE, KEY),)
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "Secret front not found in namespace modelplane-system"),
        (secret(), "tls.crt is not a PEM certificate"),
        (secret(tls_crt=CERTIFICATE), "tls.key is not an unencrypted PEM private key"),
        (secret(tls_crt="nonsense", tls_key=KEY), "tls.crt is not a PEM certificate"),
        (secret(tls_crt=CERTIFICATE, tls_key=OTHER_KEY), "tls.key does not match tls.crt"),
        ({**secret(), "data": {"tls.crt": "%"}}, "tls.crt is not base64"),
    ],
)
def test_a_certificate_that_cannot_be_used_says_why(found, said):
    with pytest.raises(InputError, match=said):
        identities_of(gateway({"name": "front"}), lambda _ref: found)
