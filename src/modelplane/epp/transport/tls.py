"""TLS of the picker: its certificate, and the clients that it accepts.

By default it creates a self-signed certificate at each start: gateways of the protocol encrypt and do not verify the
picker. A directory with `tls.crt` and `tls.key`, as Kubernetes mounts a Secret, replaces it, and with a client CA,
calls without a client certificate fail.
"""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modelplane.api.errors import InputError

_LIFETIME = timedelta(days=3650)
_BACKDATED = timedelta(hours=1)  # clocks of proxies differ


class ServerIdentity(msgspec.Struct, frozen=True):
    """A certificate chain with its key, and the client CA; PEM."""

    certificate: bytes
    key: bytes
    clients: bytes = b""
    """Certificate authorities of clients; empty: anyone may call."""
    tls13: bool = False
    """Refuse TLS 1.2."""

    def __repr__(self) -> str:
        return f"Identity(clients={'checked' if self.clients else 'anyone'})"


class HopCertificates(msgspec.Struct, frozen=True):
    """Both ends of a hop between gateways, and the authority that signed them; PEM. Nobody has the authority's key."""

    authority: bytes
    server: bytes
    server_key: bytes
    client: bytes
    client_key: bytes

    def __repr__(self) -> str:
        return "HopCertificates()"


def issue_hop(server_name: str, now_s: float, lifetime: timedelta) -> HopCertificates:
    """New certificates for a hop. New ones need a new authority: its key is forgotten when both are signed."""
    now = datetime.fromtimestamp(now_s, UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{server_name} authority")])

    def signed(
        name: x509.Name, key: ec.EllipticCurvePrivateKey, purpose: x509.ObjectIdentifier | None, dns: str = ""
    ) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATED)
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(ca=purpose is None, path_length=None), critical=True)
        )
        if purpose is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if dns:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    server_key, client_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, server_name)])
    client = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleet gateway")])
    return HopCertificates(
        signed(issuer, authority_key, None),
        signed(server, server_key, ExtendedKeyUsageOID.SERVER_AUTH, server_name),
        _private(server_key),
        signed(client, client_key, ExtendedKeyUsageOID.CLIENT_AUTH),
        _private(client_key),
    )


def client_context(authority: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Trusts that authority alone, and shows the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority.decode("ascii"))
    with _as_file(certificate) as chain, _as_file(key) as private:
        context.load_cert_chain(chain, private)
    return context


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def self_signed(now_s: float, clients: bytes = b"") -> ServerIdentity:
    """A self-signed identity of the picker. Gateways do not verify its name."""
    return ServerIdentity(*self_signed_loopback("modelplane-picker", now_s, _LIFETIME), clients)


def self_signed_loopback(name: str, now_s: float, lifetime: timedelta) -> tuple[bytes, bytes]:
    """A self-signed server certificate for loopback, and its key, both in PEM."""
    now = datetime.fromtimestamp(now_s, UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    loopback = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), *(x509.IPAddress(each) for each in loopback)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _private(key)


def read_identity(folder: Path, clients: Path | None = None) -> ServerIdentity:
    """The certificate of a folder as Kubernetes mounts a Secret of type TLS."""
    return ServerIdentity(_read(folder / "tls.crt"), _read(folder / "tls.key"), _read(clients) if clients else b"")


def server_context(identity: ServerIdentity) -> ssl.SSLContext:
    """TLS 1.2 or later, or 1.3 only, with ALPN h2 only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if identity.tls13 else ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    load_identity(context, identity)
    return context


def load_identity(context: ssl.SSLContext, identity: ServerIdentity) -> None:
    """Handshakes from here on present this identity; open connections keep theirs."""
    with _as_file(identity.certificate) as chain, _as_file(identity.key) as key:
        try:
            context.load_cert_chain(chain, key)
            if identity.clients:
                context.load_verify_locations(cadata=identity.clients.decode("ascii"))
                context.verify_mode = ssl.CERT_REQUIRED
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise InputError(f"the picker's certificate, key or client authorities cannot be used: {error}") from error


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A name under which the content can be read meanwhile: the library reads keys from files only.

    In memory where the system can, for a key has no business on a disk, and a picker's root is mounted to be read.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pem"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:  # pragma: no cover - Linux has it
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
