"""Every reason a condition or an event can carry, each with what it means and what the reader can do.

`docs/reasons.md` is checked against this table, so a reason that is not explained fails the build.
"""

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """In the words of Kubernetes: one CamelCase word, stable, made to be matched by programs."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.meaning = meaning
        return reason

    AVAILABLE = "Available", "Everything the object asked for is there and works."
    CREATING = "Creating", "Something the object needs is not ready yet. The message says what."
    ACCEPTED = "Accepted", "The object is well formed and may be used by others."
    INVALID = "Invalid", "The object says something that cannot be meant. The message names the field. What runs stays."
    NOT_SUPPORTED = "NotSupported", "This build cannot do what the object asks for. Nothing was changed."
    UNRESOLVED = "Unresolved", "Another object this one refers to was not fetched yet. Nothing is decided until it is."

    CLUSTER_RUNNING = "ClusterRunning", "The cluster answers and its pools are known."
    CLASS_MISSING = "ClassMissing", "A pool names an InferenceClass that does not exist. What was known of it is kept."
    WAITING_FOR_CLUSTER = "WaitingForCluster", "The cluster was not observed yet, or it does not answer."
    GATEWAY_RUNNING = "GatewayRunning", "The gateway has an address and answers."
    WAITING_FOR_GATEWAY = "WaitingForGateway", "The gateway has no address yet."

    ALL_PLACED = "AllPlaced", "Every replica that was asked for has a cluster."
    NO_CLUSTERS = "NoClusters", "No cluster matches the clusterSelector. What runs stays; label a cluster or relax it."
    INSUFFICIENT_CAPACITY = (
        "InsufficientCapacity",
        "Some replicas have no cluster, because no pool that matches has room. The placement says what is missing.",
    )
    INVALID_SELECTOR = (
        "InvalidSelector",
        "A device selector does not compile. What runs stays; the message shows where.",
    )
    ALL_READY = "AllReady", "Every replica that was asked for answers requests."
    SCALED_TO_ZERO = "ScaledToZero", "No replica was asked for."
    STARTING = "Starting", "Some replicas do not answer requests yet."
    NOT_PLACED = "NotPlaced", "Some replicas have no cluster, so they cannot answer."

    CLUSTER_MISSING = "ClusterMissing", "The cluster of the replica does not exist. What runs there stays as it is."
    NO_CACHES = "NoCaches", "The replica mounts no cache."
    CACHES_STAGED = "CachesStaged", "Every cache that the replica mounts is staged on its cluster."
    CACHE_MISSING = "CacheMissing", "A cache that the replica mounts does not exist. What runs stays; make it again."
    CACHE_STAGING = "CacheStaging", "A cache is not staged on the cluster yet. The pods are started once it is."
    CACHE_FAILED = "CacheFailed", "A cache could not be staged on the cluster. Its own status says why."
    WAITING_FOR_CACHES = "WaitingForCaches", "The pods are not started before the caches are staged."
    WORKLOAD_FAILED = (
        "WorkloadFailed",
        "The cluster refuses the pods of the replica or gave up on them. The message is the cluster's own.",
    )
    WORKLOAD_AVAILABLE = "WorkloadAvailable", "The pods of the replica are available on their cluster."
    WORKLOAD_STARTING = "WorkloadStarting", "The pods of the replica are being started on their cluster."
    ROUTE_CONFIGURED = "RouteConfigured", "Requests are routed."
    ROUTE_PENDING = "RoutePending", "The route was written and is not in force yet."
    ENDPOINTS_FOUND = "EndpointsFound", "The service selects endpoints that answer."
    NO_ENDPOINTS = "NoEndpoints", "No endpoint matches. The address stays and answers 503 until one does."
    NO_READY_ENDPOINTS = "NoReadyEndpoints", "Endpoints match, none answers. The address answers 503 until one does."

    PLACED = "Placed", "A replica was given a cluster."
    REMOVED = "Removed", "A replica was removed. The message says why."
    IN_USE = "InUse", "The object is being deleted and others still need it. It goes when they are gone."
    NOT_OURS = (
        "NotOurs",
        "An object that this one makes exists already and belongs to somebody else. Rename one of them.",
    )
    BROKEN = "Broken", "Modelplane itself failed on this object and tries again. What runs stays; please report it."
