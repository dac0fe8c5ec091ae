"""The route on the cluster's own gateway that leads to a replica, by the header that the fleet gateway sets."""

from collections.abc import Mapping

from modelplane.api.labels import CLUSTER_GATEWAY, SYSTEM_NAMESPACE
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest, items_at
from modelplane.compose.context import Context, listed_header, replica_header
from modelplane.compose.contract import ReadyWhen, Remote


def takes_lists(replica: ModelReplica, route: Manifest) -> bool:
    """Whether a route, as it is on its cluster, takes requests that list several replicas. Earlier releases' do not."""
    matches = (match for rule in items_at(route, "spec", "rules") for match in items_at(rule, "matches"))
    return listed_header(replica) in [header for match in matches for header in items_at(match, "headers")]


def http_route(context: Context, backend_refs: tuple[Mapping[str, object], ...]) -> Remote:
    """Without a time limit of its own: answers are streamed for as long as they take."""
    headers = [replica_header(context.replica), *([listed_header(context.replica)] if context.is_listed else [])]
    path = {"type": "PathPrefix", "value": "/"}
    rule = {
        "matches": [{"path": path, "headers": [header]} for header in headers],
        "backendRefs": [dict(ref) for ref in backend_refs],
        "timeouts": {"request": "0s"},
    }
    spec = {"parentRefs": [{"name": CLUSTER_GATEWAY, "namespace": SYSTEM_NAMESPACE}], "rules": [rule]}
    route = context.object("gateway.networking.k8s.io/v1", "HTTPRoute", context.name, spec=spec)
    return context.remote(route, ReadyWhen.ROUTED)
