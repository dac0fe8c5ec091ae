"""Commands to simulated clusters: failures, lost nodes, slow starts, shortages.

A command to a whole cluster sets an annotation of its InferenceCluster, so it survives a restart of the plane and works
with kubectl as well. A command to a node or a pod sets an annotation of that object in the simulated cluster.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from modelplane.api.chosen_scheduler import with_chosen_scheduler
from modelplane.api.codec import decode
from modelplane.api.errors import InputError
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster
from modelplane.sim.cluster.prerequisites import queueing_scheduler
from modelplane.sim.cluster.settings import FAULTS, LOAD_SECONDS, PULL_SECONDS, QUOTA, STOCK
from modelplane.sim.cluster.sim_settings import seconds, stock_of, stock_text
from modelplane.sim.commands.command import SimCommand, SimulatedFleet, reachable, require_pool
from modelplane.sim.commands.failures import FAILURES
from modelplane.sim.commands.inventory import Row
from modelplane.sim.commands.inventory import inventory as held
from modelplane.sim.commands.sources import SOURCE_VERBS
from modelplane.sim.engine import read_list

_QUEUEING = {"KAI", "Kueue", "Volcano"}


def fail_cluster(fleet: SimulatedFleet, command: SimCommand) -> str:
    fleet.fail(command.cluster_name)
    return (
        f"cluster {command.cluster} failed: its API, gateway and engines are stopped. "
        "Deployments replace its replicas after the grace period in spec.failover."
    )


def recover_cluster(fleet: SimulatedFleet, command: SimCommand) -> str:
    fleet.recover(command.cluster_name)
    return f"cluster {command.cluster} recovers: every container restarts."


def lose_node(fleet: SimulatedFleet, command: SimCommand) -> str:
    reachable(fleet, command).lose_node(command.name)
    return f"node {command.name} of {command.cluster} is lost; it turns NotReady, and then its pods are evicted."


def restore_node(fleet: SimulatedFleet, command: SimCommand) -> str:
    reachable(fleet, command).restore_node(command.name)
    return f"node {command.name} of {command.cluster} is restored; its pods restart."


def cordon_node(fleet: SimulatedFleet, command: SimCommand) -> str:
    reachable(fleet, command).cordon_node(command.name)
    return f"node {command.name} of {command.cluster} is cordoned; its pods stay."


def uncordon_node(fleet: SimulatedFleet, command: SimCommand) -> str:
    reachable(fleet, command).cordon_node(command.name, cordoned=False)
    return f"node {command.name} of {command.cluster} is uncordoned."


def taint_devices(fleet: SimulatedFleet, command: SimCommand) -> str:
    devices = "" if command.value == "off" else command.value
    reachable(fleet, command).taint_devices(command.name, devices)
    said = f"{devices} of node {command.name} of {command.cluster}"
    if not devices:
        return f"no device of node {command.name} of {command.cluster} is tainted."
    return f"{said} is tainted as unhealthy: no new pods, and replicas on it are replaced."


def drain_node(fleet: SimulatedFleet, command: SimCommand) -> str:
    evicted, waiting = reachable(fleet, command).drain_node(command.name)
    later = f" {_pods(waiting)} kept by a PodDisruptionBudget for now: drain the node again." if waiting else ""
    return f"node {command.name} of {command.cluster} is cordoned; {_pods(evicted)} being deleted.{later}"


def crash_pod(fleet: SimulatedFleet, command: SimCommand) -> str:
    namespace, _, name = command.name.rpartition("/")
    reachable(fleet, command).crash_pod(namespace, name)
    return f"the containers of pod {command.name} of {command.cluster} exit once and restart."


def slow_load(fleet: SimulatedFleet, command: SimCommand) -> str:
    taken = _slow(fleet, command, LOAD_SECONDS)
    return f"new engines on {command.cluster} take {taken} to load their models."


def slow_pull(fleet: SimulatedFleet, command: SimCommand) -> str:
    taken = _slow(fleet, command, PULL_SECONDS)
    return f"new pods on {command.cluster} take {taken} to pull their images."


def _slow(fleet: SimulatedFleet, command: SimCommand, key: str) -> str:
    if command.value != "off" and seconds(command.value) is None:
        raise InputError(f"{command.value!r} is not a number of seconds; use a number or `off`")
    fleet.annotate(command.cluster_name, key, None if command.value == "off" else command.value)
    return "the usual time" if command.value == "off" else f"{command.value} s"


def set_faults(fleet: SimulatedFleet, command: SimCommand) -> str:
    """For all engines of a cluster, or for that of one pod."""
    faults = None if command.value == "off" else command.value
    if faults is not None:
        try:
            read_list(faults)
        except ValueError as error:
            raise InputError(str(error)) from None
    if command.name:
        namespace, _, name = command.name.rpartition("/")
        reachable(fleet, command).set_faults(namespace, name, faults)
    else:
        fleet.annotate(command.cluster_name, FAULTS, faults)
    which = f"the engine of pod {command.name}" if command.name else "every engine"
    return (
        f"{which} of {command.cluster} has no faults."
        if faults is None
        else f"{which} of {command.cluster} has {faults}."
    )


def stock_out(fleet: SimulatedFleet, command: SimCommand) -> str:
    """The provider has at most that many nodes of a pool; further nodes are removed."""
    declared = fleet.declared(command.cluster_name)
    require_pool(fleet, command)
    if command.value != "off" and not command.value.isdecimal():
        raise InputError(f"{command.value!r} is not a number of nodes; use a number or `off`")
    stock = {name: nodes for name, nodes in stock_of(declared).items() if name != command.name}
    if command.value != "off":
        stock[command.name] = int(command.value)
    fleet.annotate(command.cluster_name, STOCK, stock_text(stock))
    if command.value == "off":
        return f"pool {command.name} of {command.cluster} has all its nodes."
    nodes = "1 node" if command.value == "1" else f"{command.value} nodes"
    return f"pool {command.name} of {command.cluster} has at most {nodes}; pods on removed nodes are lost."


def set_quota(fleet: SimulatedFleet, command: SimCommand) -> str:
    if command.value != "off" and not command.value.isdecimal():
        raise InputError(f"{command.value!r} is not a number of devices; use a number or `off`")
    declared = with_chosen_scheduler(decode(InferenceCluster, fleet.declared(command.cluster_name)))
    scheduling = declared.spec.scheduling
    if queueing_scheduler(scheduling) is None:
        queueing = ", ".join(sorted(_QUEUEING))
        raise InputError(f"cluster {command.cluster} has no queue: its scheduler is none of {queueing}")
    fleet.annotate(command.cluster_name, QUOTA, None if command.value == "off" else command.value)
    amount = "all devices" if command.value == "off" else f"{command.value} devices"
    return f"each scheduler queue of {command.cluster} has a quota of {amount}."


VERBS: Mapping[str, Callable[[SimulatedFleet, SimCommand], str]] = MappingProxyType(
    {
        "fail-cluster": fail_cluster,
        "recover-cluster": recover_cluster,
        "lose-node": lose_node,
        "restore-node": restore_node,
        "cordon-node": cordon_node,
        "uncordon-node": uncordon_node,
        "drain-node": drain_node,
        "taint-devices": taint_devices,
        "crash-pod": crash_pod,
        "slow-load": slow_load,
        "slow-pull": slow_pull,
        "faults": set_faults,
        "stock-out": stock_out,
        "quota": set_quota,
        **FAILURES,
        **SOURCE_VERBS,
    }
)


def perform(fleet: SimulatedFleet, command: SimCommand) -> str:
    """Run a command and return a sentence about its effect. Raises InputError, NotFoundError or UnavailableError."""
    action = VERBS.get(command.verb)
    if action is None:
        raise InputError(f"verb: {command.verb!r} is unknown; use one of {', '.join(VERBS)}")
    return action(fleet, command)


def inventory(fleet: SimulatedFleet, name: ClusterName) -> dict[str, list[Row]]:
    """The nodes, pods and warnings of a cluster."""
    return held(reachable(fleet, SimCommand("", name)).api)


def _pods(count: int) -> str:
    return "1 pod is" if count == 1 else f"{count} pods are"
