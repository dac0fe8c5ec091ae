"""The Secret of a gateway's callers: the one that its policy names, and that only we write.

Users' Secrets with keys are read and checked, and all entries that hold are in this one. Envoy Gateway answers 500 to
everybody by a policy that names a Secret which is not there, or one key twice. So nothing that somebody does to a
labelled Secret reaches it before it is checked; and there is one Secret, since a key that moved between two would be in
both for a moment.

A Secret that was in force and is missing from the list is required by name: it leaves when it is known to be gone or to
have other labels. Until that is known the keys stay as they are.
"""

import base64
from collections.abc import Iterable
from typing import Final

from modelplane.api.labels import CALLERS_FROM, SYSTEM_NAMESPACE
from modelplane.api.models import InferenceGateway
from modelplane.api.names import make_name
from modelplane.api.objects import (
    Json,
    Manifest,
    annotations_of,
    items_at,
    labels_of,
    manifest,
    mapping_at,
    name_of,
    text_at,
    with_metadata,
)
from modelplane.compose.callers import CallerSecrets, read_callers
from modelplane.compose.contract import ComposeRequest, Desired, Local, Requirement, keep
from modelplane.compose.fleet_gateways import gateway_object_name

POLICY: Final = "callers"
"""The key of the policy that names the callers' keys."""
KEYS: Final = "caller-keys"
"""The key of the Secret. It is beside the control plane wherever the gateway runs."""
_SECRETS, _SECRET = "secrets", "secret-"
"""The keys by which the labelled Secrets are required: all, and one by its name."""


def keys_name(gateway: InferenceGateway) -> str:
    """The Secret of its callers, in the system's namespace."""
    name = gateway_object_name(gateway)
    return make_name(f"{name}-callers", name, POLICY, KEYS)


def caller_requirements(request: ComposeRequest[InferenceGateway]) -> dict[str, Requirement]:
    labels = _labels(request)
    if not labels:
        return {}
    listed = Requirement("v1", "Secret", namespace=SYSTEM_NAMESPACE, labels=labels)
    named = (Requirement("v1", "Secret", name=name, namespace=SYSTEM_NAMESPACE) for name in _unlisted(request))
    return {_SECRETS: listed, **{f"{_SECRET}{each.name}": each for each in named}}


def current_callers(request: ComposeRequest[InferenceGateway]) -> CallerSecrets | None:
    """None without keys, and until every Secret that may have some is read."""
    listed, labels = request.fetched(_SECRETS), _labels(request)
    if listed is None or not labels:
        return None
    found = [item for item in listed if name_of(item)]
    for name in _unlisted(request):
        one = request.fetched(_SECRET + name)
        if one is None or any(name_of(item) != name for item in one):
            return None
        found += [item for item in one if labels.items() <= labels_of(item).items()]
    return read_callers(found)


def caller_secret(request: ComposeRequest[InferenceGateway], callers: CallerSecrets | None) -> dict[str, Desired]:
    """The Secret by its key. It stays while the policy names it: what is not desired is deleted first."""
    seen, wanted = request.observed.get(KEYS), request.resource.spec.auth is not None
    if callers is not None:
        return {KEYS: Desired(Local(_secret(request.resource, callers)), ready=seen is not None)}
    if seen is not None and (wanted or may_name(request, keys_name(request.resource))):
        return {KEYS: keep(seen)}
    return {}


def may_name(request: ComposeRequest[InferenceGateway], secret: str) -> bool:
    """Whether the observed policy names the Secret, or cannot be read."""
    policy = _policy(request)
    return policy is not None and (not mapping_at(policy, "spec") or secret in _named(policy))


def is_named(request: ComposeRequest[InferenceGateway], secret: str) -> bool:
    """Whether the observed policy names the Secret."""
    policy = _policy(request)
    return policy is not None and secret in _named(policy)


def _secret(gateway: InferenceGateway, callers: CallerSecrets) -> Json:
    data = {each.identity: base64.b64encode(each.key.encode()).decode() for each in callers.callers}
    made = manifest("v1", "Secret", keys_name(gateway), namespace=SYSTEM_NAMESPACE, type="Opaque", data=data)
    return with_metadata(made, annotations={CALLERS_FROM: " ".join(callers.secrets)})


def _labels(request: ComposeRequest[InferenceGateway]) -> dict[str, str]:
    auth = request.resource.spec.auth
    return dict(auth.api_key.secret_selector.match_labels) if auth is not None and auth.api_key is not None else {}


def _unlisted(request: ComposeRequest[InferenceGateway]) -> list[str]:
    """The Secrets of keys in force that the list lacks."""
    listed, seen = request.fetched(_SECRETS), request.observed.get(KEYS)
    if listed is None or seen is None:
        return []
    names = {name_of(item) for item in listed}
    return [name for name in annotations_of(seen.manifest).get(CALLERS_FROM, "").split() if name not in names]


def _policy(request: ComposeRequest[InferenceGateway]) -> Manifest | None:
    seen = request.observed.get(POLICY)
    return seen.manifest if seen is not None else None


def _named(policy: Manifest) -> Iterable[str]:
    return [text_at(each, "name") for each in items_at(policy, "spec", "apiKeyAuth", "credentialRefs")]
