"""Events about trouble inside a cluster: the same thing told again raises a count instead of adding an object.

Only warnings are told. What goes well is in the statuses, and ten thousand pods would tell it forty thousand times. An
event goes with the object that it is about, so that an emptied namespace is empty.
"""

from modelplane.api.names import make_name
from modelplane.api.objects import Manifest, int_at, manifest, name_of, namespace_of, text_at, uid_of
from modelplane.api.timestamps import timestamp
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ControllerContext

_CLUSTER_WIDE = "default"  # where events about objects without a namespace are


def warn(site: ControllerContext, about: Manifest, reason: str, message: str, *, source: str) -> None:
    """Tell of trouble with an object."""
    namespace = namespace_of(about) or _CLUSTER_WIDE
    name = make_name(name_of(about), uid_of(about), reason, message)
    known = site.store.get(ObjectRef("", "Event", namespace, name))
    now = timestamp(site.clock.now())
    if known is not None:
        site.store.replace({**known, "count": int_at(known, "count") + 1, "lastTimestamp": now})
        return
    owner = {key: text_at(about, key) for key in ("apiVersion", "kind")} | {
        "name": name_of(about),
        "uid": uid_of(about),
    }
    event = manifest("v1", "Event", name, namespace=namespace)
    site.store.create(
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
