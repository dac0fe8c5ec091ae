"""The certificate of the plane's API. Clients send their token over TLS only, so a loopback API needs one too."""

import os
import ssl
from datetime import timedelta
from pathlib import Path

from modelplane.epp.transport.tls import self_signed_loopback

_LIFETIME = timedelta(days=365)


def server_context(folder: Path, *, now: float) -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a new certificate for loopback, and that certificate for clients to trust.

    Created at every start. The key file is readable by its owner only.
    """
    certificate, key = certificate_for_loopback(now=now)
    certificate_path, key_path = folder / "api.crt", folder / "api.key"
    certificate_path.write_bytes(certificate)
    key_path.unlink(missing_ok=True)  # an existing file would keep its mode
    descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate_path, key_path)
    return context, certificate


def certificate_for_loopback(*, now: float) -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, both in PEM."""
    return self_signed_loopback("modelplane", now, _LIFETIME)
