from modelplane.api.conditions import ConditionType, fails, holds
from modelplane.api.reasons import Reason
from modelplane.compose.contract import Event, EventType
from modelplane.compose.transitions import transitions

WORKLOAD, ROUTE = ConditionType.WORKLOAD_READY, ConditionType.ROUTE_READY
LOST = "cluster east does not answer"
AVAILABLE, ROUTED = holds(WORKLOAD, Reason.WORKLOAD_AVAILABLE), holds(ROUTE, Reason.ROUTE_CONFIGURED)
LOADING = fails(WORKLOAD, Reason.LOADING_WEIGHTS, "m")


def test_one_cause_of_several_conditions_is_one_warning():
    now = [fails(kind, Reason.CLUSTER_LOST, LOST) for kind in (WORKLOAD, ROUTE)]
    expected = (Event(EventType.WARNING, Reason.CLUSTER_LOST, f"WorkloadReady: {LOST}"),)
    assert transitions([AVAILABLE, ROUTED], now) == expected
    assert transitions(now, now) == ()
    assert transitions([], now) == expected


def test_two_causes_are_two_warnings():
    now = [fails(WORKLOAD, Reason.CRASH_LOOPING, "a"), fails(ROUTE, Reason.ROUTE_REJECTED, "b")]
    assert [event.reason for event in transitions([], now)] == ["CrashLooping", "RouteRejected"]


def test_a_stage_is_an_event_only_where_something_served():
    assert transitions([], [LOADING]) == transitions([fails(WORKLOAD, Reason.CREATING, "")], [LOADING]) == ()
    assert transitions([AVAILABLE], [LOADING]) == (Event(EventType.NORMAL, Reason.LOADING_WEIGHTS, "WorkloadReady: m"),)


WARNINGS = """
    AgentDisconnected AgentUnknown Broken CacheFailed CacheIncomplete CacheMissing CallerKeysInvalid CallerKeysMissing
    ClaimPending ClassInvalid ClassMissing ClusterLost ClusterMissing CollectorFailed ConfigMapMissing
    ContainerStartFailed CrashLooping DigestMismatch DrainDeadline FitsNowhere HostNotFound ImagePullFailed
    InstallationFailed InsufficientCapacity Invalid InvalidSelector NoClusters NoEndpoints NoReadyEndpoints NoSpace
    NoStorage NotOurs NotRunnable NotSupported OOMKilled OutboundPartlyRefused OutboundRefused PartlyStaged PodFailed
    ProgressDeadlineExceeded ProviderNotReached ProvisioningFailed QueueMissing QuotaExceeded RequirementsMissing
    RolloutHalted RouteRejected SecretInvalid SecretMissing SourceInvalid SourceNotFound SourceUnreachable
    StagingFailed StagingTimedOut Unauthorized Unhealthy Unresolved Unschedulable VolumeLost VolumeMissing
    VolumePending WaitingForCluster WaitingForGateway WorkloadFailed
"""
WANTED = """
    Accepted Adopted AgentConnected AllPlaced AllReady Available CacheStaging CachesStaged CanaryBaking ClusterRunning
    ClustersMatched CollectorRunning CollectorStarting ContainerCreating Creating Deleting Drained Draining
    EndpointsFound GatewayRunning Hydrating InUse Installing LoadingWeights NoCaches NoDestinations NoSecrets
    NotDraining NotPlaced NotPlacedYet Placed Provisioned Provisioning Published Removed RequirementsMet
    RolloutComplete RolloutPaused RollingOut RouteConfigured RoutePending ScaledToZero SchedulingGated SecretsCopied
    SecretsCopying SecretsFound Serving Staged Starting Terminating WaitingForCaches WaitingForClusters
    WaitingForRelay WaitingForSecrets WaitingForVolume WarmingUp WorkloadAvailable WorkloadStarting
"""
TYPES = dict.fromkeys(WARNINGS.split(), EventType.WARNING) | dict.fromkeys(WANTED.split(), EventType.NORMAL)


def test_what_ceases_is_a_warning_where_nobody_wanted_it():
    found = {
        reason.value: transitions([AVAILABLE], [fails(WORKLOAD, reason, "m")]) for reason in sorted(Reason, key=str)
    }
    assert found == {word: (Event(kind, Reason(word), "WorkloadReady: m"),) for word, kind in sorted(TYPES.items())}


def test_what_recovers_is_told_by_each_condition():
    assert transitions([LOADING, fails(ROUTE, Reason.ROUTE_PENDING, "")], [AVAILABLE, ROUTED]) == (
        Event(EventType.NORMAL, Reason.WORKLOAD_AVAILABLE, "WorkloadReady"),
        Event(EventType.NORMAL, Reason.ROUTE_CONFIGURED, "RouteReady"),
    )
    assert transitions([], [AVAILABLE, ROUTED]) == ()
