"""Every reason of a condition or an event, with its meaning and what to do.

`docs/reasons.md` is checked against this table, so a reason that is not explained fails the build.
"""

from enum import StrEnum
from typing import Self


class ExplainedReason(StrEnum):
    """One CamelCase word as in Kubernetes: stable, for programs to match."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.meaning = meaning
        return reason


class Reason(ExplainedReason):
    """Of a condition or an event."""

    AVAILABLE = "Available", "Every composed object is ready."
    CREATING = "Creating", "A composed object is not ready yet. The message names it."
    ACCEPTED = "Accepted", "The spec is valid."
    INVALID = "Invalid", "A field of the spec is invalid. The message names it. Running pods stay."
    NOT_SUPPORTED = "NotSupported", "This build does not support the spec. Nothing is changed."
    UNRESOLVED = "Unresolved", "An object that this one refers to is not read yet. Nothing is decided until it is."

    AGENT_CONNECTED = (
        "AgentConnected",
        "The cluster's agent is connected to the hub. The message has the last heartbeat.",
    )
    AGENT_DISCONNECTED = (
        "AgentDisconnected",
        "The cluster's agent left the hub. Its replicas serve on until spec.failover.gracePeriodSeconds replaces them.",
    )
    AGENT_UNKNOWN = (
        "AgentUnknown",
        "No agent has connected yet, or the hub is silent. What runs on the cluster goes on, and nothing moves.",
    )
    CLUSTER_RUNNING = "ClusterRunning", "Objects on the cluster are observed and its pools are known."
    CLASS_MISSING = (
        "ClassMissing",
        "A pool names an InferenceClass that does not exist. The pool keeps its last status.",
    )
    CLASS_INVALID = (
        "ClassInvalid",
        "A pool names an InferenceClass that cannot be read. The message says why. The pool keeps its last status.",
    )
    WAITING_FOR_CLUSTER = "WaitingForCluster", "The cluster is not observed yet, or it does not answer."
    CLUSTER_LOST = (
        "ClusterLost",
        "The cluster stopped answering. Its replicas are replaced after spec.failover.gracePeriodSeconds.",
    )
    DRAINING = "Draining", "Replicas have to leave the cluster or a pool of it. Each leaves when its successor serves."
    DRAINED = "Drained", "No replica that has to leave is left."
    NOT_DRAINING = "NotDraining", "Neither the cluster nor a pool of it is drained."
    GATEWAY_RUNNING = "GatewayRunning", "The gateway has an address and answers."
    WAITING_FOR_GATEWAY = "WaitingForGateway", "The gateway has no address yet."
    CALLER_KEYS_MISSING = (
        "CallerKeysMissing",
        "No Secret has the labels of spec.auth.apiKey.secretSelector. Nobody may call. Label the Secrets with keys.",
    )
    CALLER_KEYS_INVALID = (
        "CallerKeysInvalid",
        "A caller of a Secret is left out, or the gateway refuses the keys. The message says why. Other keys hold.",
    )

    PROVISIONED = "Provisioned", "Every resource of the cluster on its cloud is ready."
    PROVISIONING = "Provisioning", "The cloud makes the cluster. The message names what is not ready."
    PROVISIONING_FAILED = (
        "ProvisioningFailed",
        "The cloud refuses a resource of the cluster. The message is the cloud's. It is tried again.",
    )
    REQUIREMENTS_MET = "RequirementsMet", "The cluster has the software that it needs."
    REQUIREMENTS_MISSING = (
        "RequirementsMissing",
        "The cluster lacks software that it needs. The message lists it. docs/operations/requirements.md has versions.",
    )
    INSTALLING = "Installing", "Software is being installed on the cluster. The message names what is not ready."
    INSTALLATION_FAILED = (
        "InstallationFailed",
        "A component of the software could not be installed or changed. The message is Helm's. It is tried again.",
    )

    COLLECTOR_RUNNING = "CollectorRunning", "The collector of the cluster runs. The message names its sinks."
    NO_DESTINATIONS = "NoDestinations", "There is no TelemetryDestination any more, so no collector runs."
    COLLECTOR_STARTING = (
        "CollectorStarting",
        "The collector is not available. An earlier one goes on. Its log says what it refuses of a sink's config.",
    )
    COLLECTOR_FAILED = (
        "CollectorFailed",
        "The cluster refuses an object of the collector. The message is the cluster's. Its kubeconfig may lack rights.",
    )

    ALL_PLACED = "AllPlaced", "Every replica of spec.replicas has a cluster."
    NO_CLUSTERS = (
        "NoClusters",
        "No cluster matches the clusterSelector, or there is none. Running pods stay. Add or label one, or relax it.",
    )
    INSUFFICIENT_CAPACITY = (
        "InsufficientCapacity",
        "Some replicas have no cluster, or a cloud has no nodes for a pool. The message says what is missing where.",
    )
    WAITING_FOR_CLUSTERS = (
        "WaitingForClusters",
        "Some replicas of a new deployment wait for clusters that are starting, 30 s at most, so that they spread.",
    )
    FITS_NOWHERE = (
        "FitsNowhere",
        "No pool would take a replica, even an empty one. Waiting does not help: change the request or add hardware.",
    )
    NOT_RUNNABLE = (
        "NotRunnable",
        "No cluster can run the replicas. The message says what is missing. Running pods stay.",
    )
    INVALID_SELECTOR = (
        "InvalidSelector",
        "A device selector does not compile or is too expensive. Running pods stay. The message names the selector.",
    )
    ALL_READY = "AllReady", "Every replica of spec.replicas serves."
    SCALED_TO_ZERO = "ScaledToZero", "spec.replicas is 0."
    STARTING = "Starting", "Some replicas do not serve yet, and none of them says why."
    SERVING = "Serving", "The replica answers requests."
    NOT_PLACED = "NotPlaced", "Some replicas have no cluster, so they cannot serve."

    ROLLING_OUT = "RollingOut", "An update is under way. The message has its revision and how far it is."
    CANARY_BAKING = "CanaryBaking", "Canaries have the new revision. The others follow when it served for long enough."
    ROLLOUT_COMPLETE = "RolloutComplete", "Every replica served the newest revision."
    ROLLOUT_PAUSED = "RolloutPaused", "spec.rollout.paused is set. Changes of the pods wait until it is not."
    ROLLOUT_HALTED = (
        "RolloutHalted",
        "A canary exceeded a limit or was aborted. The stable revision has all requests. Undo, resume or change it.",
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        "An update made no progress for progressDeadlineSeconds. Old replicas serve on. Fix the template, or undo it.",
    )

    CLUSTER_MISSING = (
        "ClusterMissing",
        "The cluster of the replica or gateway does not exist. What runs there stays.",
    )
    NO_CACHES = "NoCaches", "The replica mounts no cache."
    CACHES_STAGED = "CachesStaged", "Every cache that the replica mounts is staged on its cluster."
    CACHE_MISSING = (
        "CacheMissing",
        "A ModelCache that replicas mount does not exist. Running pods stay. Create it, or correct its name.",
    )
    CACHE_STAGING = "CacheStaging", "A cache is not staged on the cluster yet. The pods are created when it is."
    CACHE_FAILED = (
        "CacheFailed",
        "Staging a cache on the cluster fails, or failed. The message has the cache's own reason.",
    )
    CACHE_INCOMPLETE = (
        "CacheIncomplete",
        "The volume of a cache was emptied or replaced. The engine does not start on it. The cache is staged again.",
    )
    STAGED = "Staged", "Every cluster that should hold the artifact does."
    HYDRATING = "Hydrating", "The loader fetches the artifact onto the volume. The status has how far it is."
    ADOPTED = "Adopted", "The artifact is on a claim that exists. Nothing is fetched."
    PUBLISHED = "Published", "Nodes pull the image when a pod mounts it. Nothing is fetched beforehand."
    PARTLY_STAGED = "PartlyStaged", "Some clusters hold the artifact, and staging failed on others."
    CLUSTERS_MATCHED = "ClustersMatched", "Clusters match the cache."
    NOT_PLACED_YET = "NotPlacedYet", "The cache is staged where replicas mount it, and none does yet."
    WAITING_FOR_VOLUME = "WaitingForVolume", "The PersistentVolumeClaim of a cache is not bound yet."
    WAITING_FOR_RELAY = "WaitingForRelay", "Another cluster fetches the artifact first. This one copies it from there."
    VOLUME_LOST = "VolumeLost", "The volume of a cache is lost. It is staged again when its claim is deleted."
    VOLUME_MISSING = "VolumeMissing", "The claim that a cache names does not exist on the cluster. Create it there."
    NO_STORAGE = "NoStorage", "The cluster has no volumes that several nodes can mount. Name a StorageClass."
    SOURCE_NOT_FOUND = "SourceNotFound", "The source of a cache has no such repository, revision, object or file."
    SOURCE_UNREACHABLE = "SourceUnreachable", "The source of a cache does not answer. It is tried again."
    SOURCE_INVALID = "SourceInvalid", "The source of a cache has content that cannot be staged. The message says why."
    UNAUTHORIZED = "Unauthorized", "The source of a cache refuses its credentials, or needs some. Correct the Secret."
    DIGEST_MISMATCH = "DigestMismatch", "A file has another digest than the source or the spec says. It is not staged."
    NO_SPACE = "NoSpace", "The volume of a cache is too small for the artifact. Give a greater storage.sizeGiB."
    STAGING_TIMED_OUT = "StagingTimedOut", "Staging took longer than a day. It is tried again and goes on from there."
    STAGING_FAILED = "StagingFailed", "Staging failed. The message is the loader's or the Job's. It is tried again."
    WAITING_FOR_CACHES = "WaitingForCaches", "The pods are created when the caches are staged."
    NO_SECRETS = "NoSecrets", "The pods of the replica name no Secret and no ConfigMap."
    SECRETS_COPIED = "SecretsCopied", "Every Secret and ConfigMap that the pods name is copied to the cluster."
    SECRETS_FOUND = "SecretsFound", "Every Secret that the sinks name is there. Clusters get copies."
    SECRETS_COPYING = "SecretsCopying", "A Secret or ConfigMap that the pods name is not on the cluster yet."
    SECRET_MISSING = (
        "SecretMissing",
        "A Secret that the pods or a gateway's certificates name, or a key of it, does not exist. What runs stays.",
    )
    SECRET_INVALID = (
        "SecretInvalid",
        "A Secret that the pods name has a type that cannot be used so. The message says which type can.",
    )
    CONFIG_MAP_MISSING = (
        "ConfigMapMissing",
        "A ConfigMap that the pods name, or a key of it, does not exist in the team's namespace. Running pods stay.",
    )
    WAITING_FOR_SECRETS = "WaitingForSecrets", "The pods are created when the Secrets and ConfigMaps are there."
    WORKLOAD_FAILED = (
        "WorkloadFailed",
        "The cluster rejects the pods of the replica or stopped retrying. The message is the workload's.",
    )
    IMAGE_PULL_FAILED = (
        "ImagePullFailed",
        "A node cannot pull an image and retries. Correct the image, its registry or the imagePullSecrets.",
    )
    CONTAINER_START_FAILED = (
        "ContainerStartFailed",
        "The node cannot start a container, such as for a command that is not in the image.",
    )
    CRASH_LOOPING = (
        "CrashLooping",
        "A container exits and is restarted with back-off. The message has the exit code and the last line.",
    )
    OOM_KILLED = "OOMKilled", "A container exceeded its memory and is restarted. Raise its memory limit."
    POD_FAILED = "PodFailed", "A pod ended, such as by an eviction. The message is the pod's."
    QUEUE_MISSING = "QueueMissing", "The queue of the pods does not exist or is closed. Create it on the cluster."
    QUOTA_EXCEEDED = "QuotaExceeded", "A quota of the cluster leaves no room for the pods. They start once it does."
    CLAIM_PENDING = "ClaimPending", "No node has the free devices of a ResourceClaim. The message is the scheduler's."
    VOLUME_PENDING = "VolumePending", "A PersistentVolumeClaim of the pods is missing or not bound."
    UNSCHEDULABLE = "Unschedulable", "No node of the cluster takes the pods. The message is the scheduler's."
    SCHEDULING_GATED = "SchedulingGated", "The pods wait until their queue admits them."
    CONTAINER_CREATING = "ContainerCreating", "A node pulls the images, mounts the volumes and prepares the devices."
    UNHEALTHY = "Unhealthy", "The engine answered before and its readiness probe fails."
    LOADING_WEIGHTS = "LoadingWeights", "The engine runs and does not answer yet: it loads the weights."
    WARMING_UP = "WarmingUp", "The engine answers, and its warm-up requests are not all answered yet."
    TERMINATING = "Terminating", "The pods of the replica are being deleted."
    WORKLOAD_AVAILABLE = "WorkloadAvailable", "The pods of the replica are available."
    WORKLOAD_STARTING = "WorkloadStarting", "The pods of the replica are starting."
    ROUTE_CONFIGURED = "RouteConfigured", "The gateway accepted the route."
    ROUTE_REJECTED = "RouteRejected", "The gateway rejects the route. The message is the gateway's."
    ROUTE_PENDING = "RoutePending", "The gateway has not accepted the route yet."
    ENDPOINTS_FOUND = "EndpointsFound", "The service selects ready endpoints."
    NO_ENDPOINTS = "NoEndpoints", "No endpoint matches. The address answers 503 until one does."
    NO_READY_ENDPOINTS = "NoReadyEndpoints", "Endpoints match and none is ready. The address answers 503 until one is."

    OUTBOUND_REFUSED = (
        "OutboundRefused",
        "The host is in the platform's own network. spec.outbound.allow of the InferenceGateway may allow it.",
    )
    OUTBOUND_PARTLY_REFUSED = (
        "OutboundPartlyRefused",
        "Some addresses of the host are in the platform's own network and get no requests. The others do.",
    )
    PROVIDER_NOT_REACHED = (
        "ProviderNotReached",
        "The control plane has no connection to the host. Requests go there all the same, and may fail.",
    )
    HOST_NOT_FOUND = "HostNotFound", "The host name has no address. It is resolved again every 30 s."
    PLACED = "Placed", "A replica was placed on a cluster."
    REMOVED = "Removed", "A replica was removed. The message says why."
    DELETING = "Deleting", "The object is being deleted. The message says what it waits for."
    DRAIN_DEADLINE = (
        "DrainDeadline",
        "The deadline of a drain is over, and a replica was removed before a successor served.",
    )
    IN_USE = "InUse", "The object is being deleted and other objects use it. It is deleted after them."
    NOT_OURS = (
        "NotOurs",
        "An object that this one composes exists and has another owner. Rename one of them.",
    )
    BROKEN = "Broken", "A bug in Modelplane. Reconciliation is retried and running pods stay. Please report it."
