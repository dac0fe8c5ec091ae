"""Warning Events of a cluster: an event that repeats raises its count instead of adding an object.

Normal Events are left out: ten thousand pods would write forty thousand of them. An Event is deleted with the object
that it is about.
"""

from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, int_at, manifest, name_of, namespace_of, text_at, uid_of
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ControllerContext

_CLUSTER_WIDE = "default"  # the namespace of Events about cluster-scoped objects


def warn(context: ControllerContext, about: Manifest, reason: str, message: str, *, source: str) -> None:
    """Write a Warning Event about an object."""
    namespace = namespace_of(about) or _CLUSTER_WIDE
    name = make_name(name_of(about), uid_of(about), reason, message)
    known = context.store.get(ObjectRef("", "Event", namespace, name))
    now = timestamp(context.clock.now())
    if known is not None:
        context.store.replace({**known, "count": int_at(known, "count") + 1, "lastTimestamp": now})
        return
    owner = {key: text_at(about, key) for key in ("apiVersion", "kind")} | {
        "name": name_of(about),
        "uid": uid_of(about),
    }
    event = manifest("v1", "Event", name, namespace=namespace)
    context.store.create(
        {
            **event,
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
            "involvedObject": {**owner, "namespace": namespace_of(about)},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": source},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
    )
