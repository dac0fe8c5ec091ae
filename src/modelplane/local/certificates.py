"""The certificate of the plane's API. Clients send their token over TLS only, so a loopback API needs one too."""

import ipaddress
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=365)
_BACKDATED = timedelta(hours=1)  # clocks of clients differ


def server_context(folder: Path, *, now: float) -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a new certificate for loopback, and that certificate for clients to trust.

    Made anew at every start: nothing secret outlives the plane but the key file, which only its owner can read.
    """
    certificate, key = certificate_for_loopback(now=now)
    certificate_path, key_path = folder / "api.crt", folder / "api.key"
    certificate_path.write_bytes(certificate)
    key_path.unlink(missing_ok=True)  # a file that is there would keep its mode
    descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate_path, key_path)
    return context, certificate


def certificate_for_loopback(*, now: float) -> tuple[bytes, bytes]:
    """A certificate that vouches for itself, and its key, both in PEM."""
    made = datetime.fromtimestamp(now, UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "modelplane")])
    loopback = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), *(x509.IPAddress(each) for each in loopback)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(made - _BACKDATED)
        .not_valid_after(made + _LIFETIME)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
