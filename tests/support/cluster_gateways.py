"""InferenceGateways on clusters, and services at them, composed pass by pass."""

from dataclasses import replace

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway, ModelService
from modelplane.compose import inference_gateway, model_service
from modelplane.compose.contract import ComposeRequest, Observed
from modelplane.compose.images import ReleaseImages

API = "modelplane.ai/v1alpha1"
IMAGES = ReleaseImages(repository="registry.example/modelplane", version="1")
CA = "-----BEGIN CERTIFICATE-----\nZmxlZXQ=\n-----END CERTIFICATE-----"


def cluster(name="fra-a", *, ca="", conditions=(), **spec):
    status = {"conditions": list(conditions), **({"gateway": {"caCertificate": ca}} if ca else {})}
    given = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}}, "nodePools": [], **spec}
    return {"apiVersion": API, "kind": "InferenceCluster", "metadata": {"name": name}, "spec": given, "status": status}


def gateway(name="eu", cluster_name="fra-a", *, address=None, labels=None, **spec):
    status = {"address": address} if address else {}
    selector = {"serviceSelector": {"matchLabels": labels}} if labels else {}
    placed = {"clusterName": cluster_name} if cluster_name else {}
    return {
        "apiVersion": API,
        "kind": "InferenceGateway",
        "metadata": {"name": name, "uid": "u", "generation": 1},
        "spec": {**placed, **selector, **spec},
        "status": status,
    }


def compose_gateway(item, required, observed=None, **request):
    resource = decode(InferenceGateway, item)
    found = ComposeRequest(resource, observed or {}, required, images=IMAGES, **request)
    return inference_gateway.compose(found)


def compose_service(item, required, observed=None):
    return model_service.compose(ComposeRequest(decode(ModelService, item), observed or {}, required, images=IMAGES))


def observed_of(found, statuses=None):
    """All that is desired, there and ready. `statuses` are of objects by key."""
    return {key: _observed(each.target, (statuses or {}).get(key)) for key, each in found.desired.items()}


def _observed(target, status):
    shown = target if status is None else replace(target, manifest={**target.manifest, "status": status})
    return Observed(shown, ready=True)


def settled(compose, statuses=None, most=8):
    """The result and what is observed, once nothing new is desired."""
    seen, found = {}, compose({})
    for _ in range(most):
        seen = observed_of(found, statuses)
        again = compose(seen)
        if {key: each.target for key, each in again.desired.items()} == {
            key: each.target for key, each in found.desired.items()
        }:
            return again, seen
        found = again
    raise AssertionError("it does not settle")
