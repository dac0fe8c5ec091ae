"""The fleet gateway's hostname, and the certificate in the Secret that its Gateway references.

Envoy refuses a whole update with an unreadable certificate, so the certificate is checked here first.
"""

import base64
from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from modelplane.api.errors import InputError
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import Manifest, items_at, text_at, value_at
from modelplane.envoy import TlsCertificate
from modelplane.reconcile.store import ObjectRef

_CERTIFICATE, _KEY = "tls.crt", "tls.key"

SecretAt = Callable[[ObjectRef], Manifest | None]


def secrets_named(gateway: Manifest) -> list[ObjectRef]:
    """The Secrets with the Gateway's certificates; none without TLS."""
    return [
        ObjectRef("", "Secret", str(reference.get("namespace", SYSTEM_NAMESPACE)), str(reference.get("name", "")))
        for listener in items_at(gateway, "spec", "listeners")
        for reference in items_at(listener, "tls", "certificateRefs")
    ]


def hostname_of(gateway: Manifest) -> str | None:
    """The hostname of the Gateway's listener; None for any."""
    names = (listener.get("hostname") for listener in items_at(gateway, "spec", "listeners"))
    return next((str(name) for name in names if name), None)


def identities_of(gateway: Manifest, secret_at: SecretAt) -> tuple[TlsCertificate, ...]:
    """The certificates of a gateway and their keys, none where it references none. Raises InputError."""
    return tuple(_identity(ref, secret_at) for ref in secrets_named(gateway))


def _identity(ref: ObjectRef, secret_at: SecretAt) -> TlsCertificate:
    secret = secret_at(ref)
    if secret is None:
        raise InputError(f"Secret {ref.name} not found in namespace {ref.namespace}")
    try:
        return _checked(_text(secret, _CERTIFICATE), _text(secret, _KEY))
    except ValueError as error:
        raise InputError(f"Secret {ref.name} in namespace {ref.namespace}: {error}") from None


def _text(secret: Manifest, name: str) -> str:
    plain = value_at(secret, "stringData", name)
    if isinstance(plain, str):
        return plain
    try:
        return base64.b64decode(text_at(secret, "data", name), validate=True).decode()
    except ValueError:
        raise ValueError(f"{name} is not base64") from None


def _checked(certificate: str, key: str) -> TlsCertificate:
    try:
        shown = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except ValueError:
        raise ValueError(f"{_CERTIFICATE} is not a PEM certificate") from None
    try:
        own = serialization.load_pem_private_key(key.encode(), password=None).public_key()
    except (ValueError, TypeError):
        raise ValueError(f"{_KEY} is not an unencrypted PEM private key") from None
    if _der(shown) != _der(own):
        raise ValueError(f"{_KEY} does not match {_CERTIFICATE}")
    return TlsCertificate(certificate, key)


def _der(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
