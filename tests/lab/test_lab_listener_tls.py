"""TLS of the lab's Gateway controller, by the objects that the product renders."""

import base64
from pathlib import Path

import pytest

from lab.envoy_resources import Place
from lab.listener_tls import transport_socket
from lab.manifests import read_folder
from lab.routing import Seen, tables

RENDERED = {item["kind"]: item for item in read_folder(Path("tests/compose/golden_hop.yaml"))}
GATEWAY, POLICY, TRUST = RENDERED["Gateway"], RENDERED["ClientTrafficPolicy"], RENDERED["ConfigMap"]
(LISTENER,) = GATEWAY["spec"]["listeners"]
PAIR = {"tls.crt": "chain", "tls.key": "key"}
SECRET = {
    "kind": "Secret",
    "metadata": {"name": LISTENER["tls"]["certificateRefs"][0]["name"], "namespace": "modelplane-system"},
    "data": {name: base64.b64encode(text.encode()).decode() for name, text in PAIR.items()},
}
ELSEWHERE = {**SECRET, "metadata": {**SECRET["metadata"], "namespace": "team"}}
NOBODY = {**TRUST, "data": {"ca.crt": ""}}


def test_a_listener_asks_for_a_certificate_of_a_trusted_authority():
    found = transport_socket(GATEWAY, LISTENER, [ELSEWHERE, SECRET], ([POLICY], [TRUST]))["typed_config"]
    assert found["require_client_certificate"] is True
    assert found["common_tls_context"] == {
        "tls_certificates": [
            {"certificate_chain": {"inline_string": "chain"}, "private_key": {"inline_string": "key"}}
        ],
        "alpn_protocols": ["h2", "http/1.1"],
        "validation_context": {"trusted_ca": {"inline_string": TRUST["data"]["ca.crt"]}},
    }


def test_without_a_policy_everybody_is_let_in():
    found = transport_socket(GATEWAY, LISTENER, [SECRET], ((), ()))["typed_config"]
    assert (found["require_client_certificate"], "validation_context" in found["common_tls_context"]) == (False, False)


@pytest.mark.parametrize(
    ("secrets", "maps"), [([], [TRUST]), ([ELSEWHERE], [TRUST]), ([SECRET], []), ([SECRET], [NOBODY])]
)
def test_a_listener_that_cannot_serve_or_trusts_nobody_is_left_out(secrets, maps):
    assert transport_socket(GATEWAY, LISTENER, secrets, ([POLICY], maps)) is None
    seen = Seen(gateways=(GATEWAY,), secrets=tuple(secrets), config_maps=tuple(maps), client_policies=(POLICY,))
    assert tables(seen, Place("127.0.0.1", lambda _: {}, "log")).listeners == ()
