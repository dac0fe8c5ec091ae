"""The certificates of the hop between gateways."""

import base64

import pytest

from modelplane.api.meta import ObjectMeta
from modelplane.compose.contract import Requirement
from modelplane.compose.hop_certificates import (
    authority_objects,
    authority_request,
    client_certificate,
    hop_name,
    issued_authority,
    server_certificate,
    trusted_authorities,
)
from tests.compose.hop import pem, request_of

CERTIFICATE = {"kind": "Certificate", "metadata": {"name": "edge-hop-ca"}, "status": {"revision": 2}}

ENCODED = request_of(CERTIFICATE, 2)["status"]["certificate"]
LONGEST = pem("x" * (16_384 - len(pem(""))))


def test_each_object_is_one_that_cert_manager_takes(problems):
    made = [*authority_objects("edge").values(), client_certificate("edge"), server_certificate("edge", "a.internal")]
    assert [found for item in made for found in problems(item)] == []


def test_names_are_new_each_time_and_stay_while_there_is_an_authority():
    owners = [ObjectMeta(name="edge", uid="u", generation=generation) for generation in (1, 2)]
    first, second = (hop_name("edge", owner, None) for owner in owners)
    assert first != second
    assert hop_name("edge", owners[1], authority_objects(first)["hop-ca"]) == first


def test_an_authority_signs_with_one_key():
    assert authority_objects("edge")["hop-ca"]["spec"] == {
        "isCA": True,
        "commonName": "edge-hop-ca",
        "secretName": "edge-hop-ca",
        "duration": "87600h",
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": "edge-hop-root"},
    }


def test_a_leaf_is_renewed_with_a_new_key_and_is_good_for_one_use():
    client, server = client_certificate("edge")["spec"], server_certificate("edge", "a.internal")["spec"]
    assert (client["duration"], client["renewBefore"], client["privateKey"]["rotationPolicy"]) == (
        "2160h",
        "720h",
        "Always",
    )
    assert [client["usages"][-1], server["usages"][-1]] == ["client auth", "server auth"]
    assert client["issuerRef"]["name"] == authority_objects("edge")["hop-issuer"]["metadata"]["name"]


def test_the_newest_request_is_asked_for_by_its_name():
    wanted = Requirement(
        "cert-manager.io/v1", "CertificateRequest", name="edge-hop-ca-2", namespace="modelplane-system"
    )
    assert authority_request(CERTIFICATE) == wanted
    assert authority_request({**CERTIFICATE, "status": {}}) is None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([request_of(CERTIFICATE, 2)], pem("edge-hop-ca 2")),
        ([request_of(CERTIFICATE, 1)], None),
        ([], None),
        ([request_of(CERTIFICATE, 2, "-----BEGIN EC PRIVATE KEY-----\nx")], None),
        ([request_of(CERTIFICATE, 2, pem("a") + "\n-----BEGIN PRIVATE KEY-----\nx")], None),
        ([{"metadata": {"name": "edge-hop-ca-2"}, "status": {"certificate": "?"}}], None),
        ([{"metadata": {"name": "edge-hop-ca-2"}, "status": {"certificate": f"?{ENCODED}"}}], None),
        ([{"metadata": {"name": "edge-hop-ca-2"}}], None),
        ([request_of(CERTIFICATE, 2, LONGEST)], LONGEST),
        ([request_of(CERTIFICATE, 2, LONGEST.replace("x", "xx", 1))], None),
        (
            [{"metadata": {"name": "edge-hop-ca-2"}, "status": {"certificate": base64.b64encode(b"\xff").decode()}}],
            None,
        ),
    ],
)
def test_only_a_certificate_is_taken_from_a_request_and_never_a_key(found, expected):
    assert issued_authority(CERTIFICATE, found) == expected


@pytest.mark.parametrize(
    ("issued", "known", "expected"),
    [
        (None, None, None),
        ("a", None, "a"),
        (None, "a", "a"),
        ("a", "a", "a"),
        ("b", "a", "b a"),
        ("c", "b a", "c b"),
        ("a", "b a", "a b"),
    ],
)
def test_the_authority_before_the_newest_is_trusted_too(issued, known, expected):
    bundles = ["\n".join(map(pem, text.split())) if text else None for text in (issued, known, expected)]
    assert trusted_authorities(*bundles[:2]) == bundles[2]
