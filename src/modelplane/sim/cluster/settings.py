"""The numbers a simulated cluster runs by, and the annotations that change them for one pod or node."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.api.labels import SYSTEM_NAMESPACE

FAILED = "sim.modelplane.ai/failed"
"""On an InferenceCluster, `true`: the whole cluster is dark."""
STOCK = "sim.modelplane.ai/stock"
"""On an InferenceCluster, `<pool>=<nodes>,...`: all the nodes of a pool that its provider has to give."""
FAULTY_DEVICES = "sim.modelplane.ai/faulty-devices"
"""Of a simulated Node: names of devices, with commas, that its driver taints as unhealthy."""
QUOTA = "sim.modelplane.ai/quota"
"""On an InferenceCluster: the devices that the queue of its scheduler may give away."""
IMAGES = "sim.modelplane.ai/images"
"""On an InferenceCluster, `[!]<image>[=<pull secret>],...`: images that its registries have, or do not have (`!`)."""
ENGINE_FLAGS = "sim.modelplane.ai/engine-flags"
"""On an InferenceCluster, `[!]<name>,...`: options that its engines have, or do not have (`!`)."""
PULL_SECONDS = "sim.modelplane.ai/pull-seconds"
"""On a pod, or on an InferenceCluster for all its pods: how long images take to arrive."""
LOAD_SECONDS = "sim.modelplane.ai/load-seconds"
"""On a pod, or on an InferenceCluster for all its pods: how long an engine loads the model before it listens."""
RUN_SECONDS = "sim.modelplane.ai/run-seconds"
"""On a pod that runs to an end: how long that takes."""
SOURCES = "sim.modelplane.ai/sources"
"""On an InferenceCluster, `slow=<times>` or `broken=<reason>`: what is wrong with the sources of its caches."""
EXIT_CODE = "sim.modelplane.ai/exit-code"
"""On a pod that runs to an end: what its containers end with; 0 where it does not say."""
FAULTS = "sim.modelplane.ai/faults"
"""On a pod, or on an InferenceCluster for all its pods, `<fault>=<value>,...`: what goes wrong with engines."""
CRASH = "sim.modelplane.ai/crash"
"""On a running pod: each new value makes its containers exit once. One that begins with OOMKilled says why."""
OUT_OF_MEMORY = "OOMKilled"
LOST = "sim.modelplane.ai/lost"
"""On a node: its machine is gone; the value is the moment, in seconds since the epoch."""
LISTENS_ON = "sim.modelplane.ai/listens-on"
"""On a pod whose engine runs, `<container port>=<host>:<port>`: where the port of the pod really answers."""

KUBELET_FINALIZER = "sim.modelplane.ai/kubelet"
"""On a bound pod until its containers have stopped: stands for the graceful deletion of a real API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Every wait is in seconds of the cluster's clock.

    gateway_address: what the Gateways of `gateway_class` get as their address; none while it is not known.
    pull_s, load_s: from the binding of a pod to its containers running, and from there to the engine listening.
    run_s: how long the pods of Jobs run.
    probe_s: how long the kubelet waits between readiness probes until the first one succeeds. Later it does not probe:
        the engines of thousands of pods live in one process, and one that ends is known without asking.
    drain_s: how long a pod that is being deleted still serves after it left the endpoints, so that proxies can follow:
        at most this long, where its engine has a preStop sleep; a real cluster would wait as long as that says.
    grace_s: terminationGracePeriodSeconds of pods that do not say.
    restart_backoff_s, restart_backoff_most_s: the wait before the second restart; it doubles up to the most.
    node_grace_s: how long a unreachable node still counts as ready (node-monitor-grace-period).
    eviction_s: how long pods stay bound to an unreachable node (default tolerationSeconds).
    device_resources: the resource that quotas count the devices of a DeviceClass under (Kueue's deviceClassMappings);
        a class that is not named here counts under its own name.
    system_nodes: nodes without devices and taints, for whatever needs none: pickers, Jobs.
    pods_per_node: as the kubelet's own limit.
    namespaces: present from the start, as a platform team would have made them.
    volumes: where volumes are folders, and loaders of caches run as processes. None: volumes hold nothing, and the pods
        of every Job run for `run_s`.
    """

    gateway_address: str | None = None
    gateway_class: str = "envoy"
    pull_s: float = 0.5
    load_s: float = 1.0
    run_s: float = 2.0
    probe_s: float = 1.0
    drain_s: float = 0.5
    grace_s: float = 30.0
    restart_backoff_s: float = 10.0
    restart_backoff_most_s: float = 300.0
    node_grace_s: float = 50.0
    eviction_s: float = 300.0
    system_nodes: int = 1
    pods_per_node: int = 110
    device_resources: Mapping[str, str] = field(default_factory=lambda: {"gpu.nvidia.com": "nvidia.com/gpu"})
    namespaces: tuple[str, ...] = ("default", "kube-system", SYSTEM_NAMESPACE)
    volumes: Path | None = None
