"""The credentials that gateways add to requests to providers, read from the Secrets that plans name."""

import base64
from collections.abc import Iterable

from modelplane.api.objects import Manifest, text_at, value_at
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.service_plan import PlanEndpoint, ServicePlan
from modelplane.reconcile.store import ObjectRef, Store


def credentials_of(plans: Iterable[ServicePlan], store: Store) -> dict[str, str]:
    """The value of the credential's header by the key of the endpoint. What cannot be read is left out."""
    found: dict[str, str] = {}
    for endpoint in (endpoint for plan in plans for endpoint in plan.endpoints):
        value = _credential(endpoint, store)
        if value is not None:
            found[endpoint.key] = value
    return found


def _credential(endpoint: PlanEndpoint, store: Store) -> str | None:
    if endpoint.credential is None:
        return None
    return credential_value(endpoint.key.partition("/")[0], endpoint.credential, store)


def credential_value(namespace: str, wanted: CredentialRef, store: Store) -> str | None:
    """The value of the header; None where the Secret has none."""
    secret = store.get(ObjectRef("", "Secret", namespace, wanted.secret))
    return _value(secret, wanted) if secret is not None else None


def _value(secret: Manifest, wanted: CredentialRef) -> str | None:
    key = secret_text(secret, wanted.key)
    if key is None:
        return None
    return f"Bearer {key}" if wanted.scheme == "Bearer" else key


def secret_text(secret: Manifest, name: str) -> str | None:
    """A text of one line: nothing else can be a header."""
    plain = value_at(secret, "stringData", name)
    try:
        encoded = text_at(secret, "data", name)
        text = plain if isinstance(plain, str) else base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return None
    text = text.strip()
    return text if text and text.isprintable() and text.isascii() else None
