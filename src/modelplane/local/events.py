"""Events as Kubernetes has them: the same thing told again raises a count instead of adding an object."""

from modelplane.api.names import make_name
from modelplane.compose.contract import Event
from modelplane.compose.manifests import name_of
from modelplane.local.ownership import Owner
from modelplane.local.status import timestamp
from modelplane.reconcile.store import ObjectRef, Store

_KEPT_S = 3600
_DEFAULT_NAMESPACE = "default"  # where events about cluster-scoped objects go


def write_event(store: Store, owner: Owner, event: Event, *, now: float) -> None:
    namespace = owner.ref.namespace or _DEFAULT_NAMESPACE
    name = make_name(owner.ref.name, owner.uid, event.type.value, event.reason.value, event.message)
    known = store.get(ObjectRef("", "Event", namespace, name))
    if known is None:
        _forget_old(store, namespace, now)
        store.create(_manifest(namespace, name, owner, event, now))
        return
    count = known.get("count")
    store.replace({**known, "count": (count if isinstance(count, int) else 0) + 1, "lastTimestamp": timestamp(now)})


def _forget_old(store: Store, namespace: str, now: float) -> None:
    """Events are kept for an hour, as an API server keeps them; whoever adds one clears away what is older."""
    oldest = timestamp(now - _KEPT_S)
    for event in store.list("", "Event", namespace=namespace):
        if str(event.get("lastTimestamp", "")) < oldest:
            store.delete(ObjectRef("", "Event", namespace, name_of(event)))


def _manifest(namespace: str, name: str, owner: Owner, event: Event, now: float) -> dict[str, object]:
    involved = {
        "apiVersion": f"{owner.ref.group}/v1alpha1",
        "kind": owner.ref.kind,
        "namespace": owner.ref.namespace,
        "name": owner.ref.name,
        "uid": owner.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "type": event.type.value,
        "reason": event.reason.value,
        "message": event.message,
        "source": {"component": "modelplane"},
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }
