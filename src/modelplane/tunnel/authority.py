"""The hub's certificate authority: for its own TLS, and for what agents show when they dial.

What a certificate says of an agent is written here: the subject of a request is not read, only its key.
"""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelplane.tunnel.frames import TunnelError

_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 397
AGENT_DAYS = 30
_EARLY = timedelta(minutes=5)
"""Clocks of clusters differ."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    certificate: bytes
    serial: str


@dataclass(frozen=True, slots=True)
class AgentAuthority:
    pair: KeyPair

    @classmethod
    def create(cls, now: float) -> "AgentAuthority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Modelplane hub authority")  # no cluster can have this name
        builder = _builder(name, name, key.public_key(), now, _AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(KeyPair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key)))

    def server(self, hosts: Iterable[str], now: float) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder("modelplane-hub", key.public_key(), now, _SERVER_DAYS)
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        builder = builder.add_extension(names, critical=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))

    def client(self, request: bytes, cluster: str, now: float) -> IssuedCertificate:
        """For the key of a certificate request, whose holder has shown to have it."""
        try:
            shown = x509.load_pem_x509_csr(request)
            valid = shown.is_signature_valid
            public_key = shown.public_key()
        except ValueError as error:
            raise TunnelError(f"csr: is not a certificate request: {error}") from None
        if not valid or not isinstance(public_key, ec.EllipticCurvePublicKey):
            raise TunnelError("csr: its signature does not fit, or its key is of another kind than EC")
        builder = self._builder(cluster, public_key, now, AGENT_DAYS)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        return IssuedCertificate(_pem(made), f"{made.serial_number:x}")

    @property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TunnelError("the hub's authority has a key of another kind than EC")
        return key

    def _builder(
        self, subject: str, public_key: ec.EllipticCurvePublicKey, now: float, days: int
    ) -> x509.CertificateBuilder:
        issuer = x509.load_pem_x509_certificate(self.pair.certificate).subject
        builder = _builder(_name(subject), issuer, public_key, now, days)
        return builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: float, days: int
) -> x509.CertificateBuilder:
    begins = datetime.fromtimestamp(now, UTC) - _EARLY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def new_request() -> tuple[bytes, bytes]:
    """A key of the agent's own, and the request for a certificate of it."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(_name("agent")).sign(key, hashes.SHA256())
    return _key_pem(key), made.public_bytes(serialization.Encoding.PEM)


def renewal_is_due(certificate: bytes, now: float) -> bool:
    """After a third of its life."""
    found = x509.load_pem_x509_certificate(certificate)
    begins, ends = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
    return now > begins + (ends - begins) / 3


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """TLS reads files only; this one is gone at once."""
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + key)
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
