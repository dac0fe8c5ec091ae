"""Certificates of the picker."""

import ssl
import time
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from modelplane.api.errors import InputError
from modelplane.epp.transport.tls import (
    ServerIdentity,
    client_context,
    issue_hop,
    read_identity,
    self_signed,
    server_context,
)


def test_a_certificate_of_its_own():
    identity = self_signed(time.time())
    certificate = x509.load_pem_x509_certificate(identity.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    context = server_context(identity)
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)


def test_no_file_is_written(tmp_path, monkeypatch):
    """The picker's root is mounted to be read, /tmp with it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "not-there"))
    assert server_context(self_signed(time.time())).minimum_version is ssl.TLSVersion.TLSv1_2


def test_two_starts_have_two_keys():
    assert self_signed(1.0).key != self_signed(1.0).key


def test_a_folder_as_kubernetes_mounts_it(tmp_path):
    made = self_signed(time.time())
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    (tmp_path / "tls.key").write_bytes(made.key)
    (tmp_path / "ca.crt").write_bytes(made.certificate)
    identity = read_identity(tmp_path, tmp_path / "ca.crt")
    assert identity == ServerIdentity(made.certificate, made.key, made.certificate)
    assert server_context(identity).verify_mode is ssl.CERT_REQUIRED


def test_what_is_missing_or_broken_is_named(tmp_path):
    with pytest.raises(InputError, match=r"tls\.crt: No such file"):
        read_identity(tmp_path)
    with pytest.raises(InputError, match="cannot be used"):
        server_context(ServerIdentity(b"no certificate", b"no key"))
    made = self_signed(time.time())
    with pytest.raises(InputError, match="cannot be used"):
        server_context(ServerIdentity(made.certificate, made.key, b"no authority"))


def test_a_key_is_not_printed():
    made = self_signed(time.time())
    assert repr(made) == "Identity(clients=anyone)"
    assert "PRIVATE" not in f"{made}"


def test_certificates_of_a_hop_are_told_apart_by_their_purpose():
    made = issue_hop("gateway.internal", time.time(), timedelta(days=1))
    again = issue_hop("gateway.internal", time.time(), timedelta(days=1))
    assert made.authority != again.authority
    authority = x509.load_pem_x509_certificate(made.authority)
    for pem, purpose in (
        (made.server, ExtendedKeyUsageOID.SERVER_AUTH),
        (made.client, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.verify_directly_issued_by(authority)
        assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [purpose]
        assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert client_context(made.authority, made.client, made.client_key).verify_mode is ssl.CERT_REQUIRED
