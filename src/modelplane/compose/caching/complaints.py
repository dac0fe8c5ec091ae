"""What replicas say of the volumes of caches: that pods found one incomplete.

A host that requeues caches for their replicas does so for this and for no other change of a status.
"""

from modelplane.api.objects import Manifest, text_at
from modelplane.api.reasons import Reason


def incomplete_since(replica: Manifest) -> str:
    """Since when the pods of a replica find a volume incomplete; empty where they do not."""
    found = text_at(replica, "status", "reason") == Reason.CACHE_INCOMPLETE
    return text_at(replica, "status", "since") if found else ""
