"""ComputeDomains as NVIDIA's DRA driver keeps them, as far as pods see it: the template of a domain's channel.

Nodes of a simulated cluster have no IMEX daemons: a claim of a channel holds no device, and every node has one.
"""

from collections.abc import Iterable

from modelplane.api.objects import Json, manifest, namespace_of, text_at, with_metadata
from modelplane.reconcile.outcomes import Done, Outcome
from modelplane.reconcile.store import ObjectRef, StoreChange
from modelplane.sim.cluster.controller import ControllerContext, is_about
from modelplane.sim.cluster.nodes import RESOURCE_API, RESOURCE_GROUP
from modelplane.sim.cluster.objects import controller_reference

NVIDIA_GROUP = "resource.nvidia.com"
_KIND = "ComputeDomain"


class ComputeDomains:
    """Makes the template of each domain's channel. The garbage collector deletes it with the domain."""

    name = "compute-domains"
    kinds = frozenset({(NVIDIA_GROUP, _KIND)})

    def __init__(self, context: ControllerContext) -> None:
        self._store = context.store

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        return (change.ref,) if is_about(change, NVIDIA_GROUP, _KIND) else ()

    def reconcile(self, ref: ObjectRef) -> Outcome:
        domain = self._store.get(ref)
        name = text_at(domain, "spec", "channel", "resourceClaimTemplate", "name") if domain is not None else ""
        template = ObjectRef(RESOURCE_GROUP, "ResourceClaimTemplate", ref.namespace, name)
        if domain is None or not name or self._store.get(template) is not None:
            return Done()
        spec: Json = {"spec": {"devices": {}}}
        made = manifest(RESOURCE_API, "ResourceClaimTemplate", name, namespace=namespace_of(domain), spec=spec)
        self._store.create(with_metadata(made, ownerReferences=[controller_reference(domain)]))
        return Done()
