"""Keys of one run of the lab: an authority, certificates for servers and clients, and the service accounts' key pair.

Everything is made anew at each start and written where only its owner can read it. Leaves may be signed by a foreign
authority too: Crossplane makes one of its own in the cluster and trusts nothing else.
"""

from __future__ import annotations

import ipaddress
import os
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, PrivateKeyTypes

_LIFETIME = timedelta(days=30)
_BACKDATED = timedelta(hours=1)
_SERVICE_ACCOUNT_KEY_BITS = 2048
SERVER_NAMES = ("localhost", "kubernetes.default.svc", "functions.lab")
SERVER_ADDRESSES = ("127.0.0.1", "127.0.0.2", "10.96.0.1")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, *, names: tuple[str, str] = ("tls.crt", "tls.key")) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / names[0], folder / names[1]
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            write_private(path, content)
        return paths


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs."""

    pair: Pair

    def server(
        self, name: str, *, dns: Sequence[str] = SERVER_NAMES, addresses: Sequence[str] = SERVER_ADDRESSES
    ) -> Pair:
        """For servers under the given names and addresses; those on loopback unless others are given."""
        numbers = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        names = x509.SubjectAlternativeName([*(x509.DNSName(each) for each in dns), *numbers])
        return self._leaf(_subject(name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, *groups: str) -> Pair:
        """Who presents it is this user of these groups to an API server."""
        return self._leaf(_subject(user, *groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _leaf(self, subject: x509.Name, use: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None) -> Pair:
        issuer = _issuer(self.pair.certificate)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, issuer, key).add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        signer: CertificateIssuerPrivateKeyTypes = serialization.load_pem_private_key(self.pair.key, None)  # type: ignore[assignment]  # an authority's key can sign, or the call below says so
        return Pair(_pem(builder.sign(signer, hashes.SHA256())), _pem_key(key))


def _issuer(certificate: bytes) -> x509.Name:
    with warnings.catch_warnings():
        # The country of Crossplane's authority is Earth, which is no code of two letters.
        warnings.simplefilter("ignore", UserWarning)
        return x509.load_pem_x509_certificate(certificate).subject


def new_authority(name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    basic = x509.BasicConstraints(ca=True, path_length=None)
    certificate = _builder(subject, subject, key).add_extension(basic, critical=True).sign(key, hashes.SHA256())
    return Authority(Pair(_pem(certificate), _pem_key(key)))


def service_account_keys() -> Pair:
    """The public and the private half. RSA, because tokens are verified by whatever a client brings."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_SERVICE_ACCOUNT_KEY_BITS)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Pair(public, _pem_key(key))


def write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _BACKDATED).not_valid_after(now + _LIFETIME)


def _subject(name: str, *groups: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
