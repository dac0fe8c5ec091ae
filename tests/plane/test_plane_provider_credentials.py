"""Credentials for providers, from the Secrets that plans name."""

import pytest

from modelplane.apiserver.store.database import Database
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.service_plan import PlanEndpoint, PlanTier, ServicePlan
from modelplane.plane.provider_credentials import credentials_of
from modelplane.testing.clock import VirtualClock


def found(credential, **secret):
    store = Database(None, clock=VirtualClock()).store("plane")
    if secret:
        store.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "team"}, **secret})
    endpoint = PlanEndpoint("team/a", "g", 1, True, "api.example", 443, "api.example", credential=credential)
    return credentials_of([ServicePlan("team", "chat", tiers=(PlanTier(0, (endpoint,)),))], store)


@pytest.mark.parametrize(
    ("credential", "secret", "expected"),
    [
        (None, {}, {}),
        (CredentialRef("s", "k"), {}, {}),
        (CredentialRef("s", "k"), {"data": {"k": "a2V5Cg=="}}, {"team/a": "Bearer key"}),
        (CredentialRef("s", "k", "x-api-key", "Raw"), {"data": {"k": "a2V5"}}, {"team/a": "key"}),
        (CredentialRef("s", "k"), {"stringData": {"k": "plain"}}, {"team/a": "Bearer plain"}),
        (CredentialRef("s", "other"), {"data": {"k": "a2V5"}}, {}),
        (CredentialRef("s", "k"), {"data": {"k": "%"}}, {}),
        (CredentialRef("s", "k"), {"stringData": {"k": "two\nlines"}}, {}),
    ],
)
def test_what_is_added_to_requests(credential, secret, expected):
    assert found(credential, **secret) == expected
