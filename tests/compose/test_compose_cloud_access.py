"""What a cluster is reached by once its cloud has made it."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.compose.clouds import CLOUDS
from modelplane.compose.clouds.resources import CloudAccess, SecretKeyRef
from tests.compose.clouds import make_cloud

IDENTITIES = {
    "GKE": (SecretKeyRef("east-identity", "private_key"), "GoogleApplicationCredentials"),
    "Nebius": (SecretKeyRef("nebius-account", "credentials"), "NebiusServiceAccountCredentials"),
}
"""Where the kubeconfig has no credentials."""


@pytest.mark.parametrize("source", CLOUDS)
def test_a_cluster_is_reached_by_the_kubeconfig_that_its_provider_writes(source):
    found = CLOUDS[source].access(decode(InferenceCluster, make_cloud(source, "fixed")))
    assert found == CloudAccess(SecretKeyRef("east-kubeconfig", "kubeconfig"), *IDENTITIES.get(source, ()))
