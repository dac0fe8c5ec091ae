"""What can be done to simulated clusters while they run: failures, node trouble, slow starts, shortages.

What concerns a whole cluster is written on its InferenceCluster as an annotation, so it outlives a restart of the plane
and can be done with kubectl as well; what concerns a node or a pod is written on that object of the simulated cluster.

    POST /modelplane/sim                    {"verb": ..., "cluster": ..., "name": ..., "value": ...}
    GET  /modelplane/sim/clusters/NAME      its nodes and pods
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
from aiohttp import web

from modelplane.api.codec import decode
from modelplane.api.errors import InputError, NotFoundError, UnavailableError
from modelplane.api.meta import ClusterName
from modelplane.api.models import InferenceCluster
from modelplane.plane.clusters import Clusters
from modelplane.plane.sim_inventory import Row
from modelplane.plane.sim_inventory import inventory as held
from modelplane.sim.cluster.cluster import SimulatedCluster
from modelplane.sim.cluster.settings import FAULTS, LOAD_SECONDS, PULL_SECONDS, QUOTA, STOCK
from modelplane.sim.cluster.sim_settings import seconds, stock_of, stock_text
from modelplane.sim.engine import read_list

PREFIX = "/modelplane/sim"
_CLUSTERS = f"{PREFIX}/clusters/"
_MOST_BYTES = 64 * 1024
_QUEUEING = {"KAI", "Kueue", "Volcano"}


class SimCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do. What `name` and `value` mean is up to the verb."""

    verb: str
    cluster: str
    name: str = ""
    value: str = ""

    @property
    def where(self) -> ClusterName:
        return ClusterName(self.cluster)


def fail_cluster(clusters: Clusters, ask: SimCommand) -> str:
    clusters.fail(ask.where)
    return (
        f"cluster {ask.cluster} goes dark: its API, its gateway and its engines are gone. "
        "Deployments replace what they had there when their grace is over (spec.failover)."
    )


def recover_cluster(clusters: Clusters, ask: SimCommand) -> str:
    clusters.recover(ask.where)
    return f"cluster {ask.cluster} comes back as after a power cut: every container starts again."


def lose_node(clusters: Clusters, ask: SimCommand) -> str:
    _reached(clusters, ask).lose_node(ask.name)
    return f"node {ask.name} of {ask.cluster} is gone. Its cluster notices after a while, and moves the pods later."


def restore_node(clusters: Clusters, ask: SimCommand) -> str:
    _reached(clusters, ask).restore_node(ask.name)
    return f"node {ask.name} of {ask.cluster} is back; what it was to run starts again."


def cordon_node(clusters: Clusters, ask: SimCommand) -> str:
    _reached(clusters, ask).cordon_node(ask.name)
    return f"node {ask.name} of {ask.cluster} takes no more pods; those that are there stay."


def uncordon_node(clusters: Clusters, ask: SimCommand) -> str:
    _reached(clusters, ask).cordon_node(ask.name, cordoned=False)
    return f"node {ask.name} of {ask.cluster} takes pods again."


def drain_node(clusters: Clusters, ask: SimCommand) -> str:
    count = _reached(clusters, ask).drain_node(ask.name)
    return f"node {ask.name} of {ask.cluster} takes no more pods, and {_pods(count)} told to leave."


def crash_pod(clusters: Clusters, ask: SimCommand) -> str:
    namespace, _, name = ask.name.rpartition("/")
    _reached(clusters, ask).crash_pod(namespace, name)
    return f"the containers of pod {ask.name} of {ask.cluster} exit once, and are restarted."


def slow_load(clusters: Clusters, ask: SimCommand) -> str:
    taken = _slow(clusters, ask, LOAD_SECONDS)
    return f"engines that start on {ask.cluster} from here on take {taken} to load their models."


def slow_pull(clusters: Clusters, ask: SimCommand) -> str:
    taken = _slow(clusters, ask, PULL_SECONDS)
    return f"images of pods that start on {ask.cluster} from here on take {taken} to arrive."


def _slow(clusters: Clusters, ask: SimCommand, knob: str) -> str:
    if ask.value != "off" and seconds(ask.value) is None:
        raise InputError(f"{ask.value!r} is no number of seconds; use one, or `off`")
    clusters.annotate(ask.where, knob, None if ask.value == "off" else ask.value)
    return "the usual time" if ask.value == "off" else f"{ask.value} s"


def set_faults(clusters: Clusters, ask: SimCommand) -> str:
    """For all engines of a cluster, or for that of one pod."""
    asked = None if ask.value == "off" else ask.value
    if asked is not None:
        try:
            read_list(asked)
        except ValueError as error:
            raise InputError(str(error)) from None
    if ask.name:
        namespace, _, name = ask.name.rpartition("/")
        _reached(clusters, ask).set_faults(namespace, name, asked)
    else:
        clusters.annotate(ask.where, FAULTS, asked)
    which = f"the engine of pod {ask.name}" if ask.name else "every engine"
    return f"{which} of {ask.cluster} does as it should." if asked is None else f"{which} of {ask.cluster} has {asked}."


def stock_out(clusters: Clusters, ask: SimCommand) -> str:
    """The provider has no more than so many nodes of a pool; those beyond are taken away."""
    declared = clusters.declared(ask.where)
    _pool(clusters, ask)
    if ask.value != "off" and not ask.value.isdecimal():
        raise InputError(f"{ask.value!r} is no number of nodes; use one, or `off`")
    stock = {name: nodes for name, nodes in stock_of(declared).items() if name != ask.name}
    if ask.value != "off":
        stock[ask.name] = int(ask.value)
    clusters.annotate(ask.where, STOCK, stock_text(stock))
    if ask.value == "off":
        return f"pool {ask.name} of {ask.cluster} gets as many nodes as it asks for."
    nodes = "1 node" if ask.value == "1" else f"{ask.value} nodes"
    return f"pool {ask.name} of {ask.cluster} has at most {nodes}; what ran on others is lost."


def set_quota(clusters: Clusters, ask: SimCommand) -> str:
    if ask.value != "off" and not ask.value.isdecimal():
        raise InputError(f"{ask.value!r} is no number of devices; use one, or `off`")
    scheduling = decode(InferenceCluster, clusters.declared(ask.where)).spec.scheduling
    if scheduling.type_ not in _QUEUEING:
        queueing = ", ".join(sorted(_QUEUEING))
        raise InputError(f"cluster {ask.cluster} has no queue: its spec.scheduling.type is none of {queueing}")
    clusters.annotate(ask.where, QUOTA, None if ask.value == "off" else ask.value)
    amount = "as many devices as there are" if ask.value == "off" else f"{ask.value} devices"
    return f"the queue of {ask.cluster}'s scheduler may give away {amount}."


VERBS: Mapping[str, Callable[[Clusters, SimCommand], str]] = MappingProxyType(
    {
        "fail-cluster": fail_cluster,
        "recover-cluster": recover_cluster,
        "lose-node": lose_node,
        "restore-node": restore_node,
        "cordon-node": cordon_node,
        "uncordon-node": uncordon_node,
        "drain-node": drain_node,
        "crash-pod": crash_pod,
        "slow-load": slow_load,
        "slow-pull": slow_pull,
        "faults": set_faults,
        "stock-out": stock_out,
        "quota": set_quota,
    }
)


def perform(clusters: Clusters, ask: SimCommand) -> str:
    """Do it, and say what happens. Raises InputError, NotFoundError or UnavailableError with a sentence."""
    action = VERBS.get(ask.verb)
    if action is None:
        raise InputError(f"verb: {ask.verb!r} is unknown; use one of {', '.join(VERBS)}")
    return action(clusters, ask)


def inventory(clusters: Clusters, name: ClusterName) -> dict[str, list[Row]]:
    """The nodes and pods of a cluster, and what it warns of."""
    return held(_reached(clusters, SimCommand("", name)).api)


class Simulation:
    """The same over HTTP."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET" and request.path.startswith(_CLUSTERS):
            return _json(inventory(self._clusters, ClusterName(request.path.removeprefix(_CLUSTERS))))
        if request.method == "POST" and request.path == PREFIX:
            said = perform(self._clusters, await _read(request))
            return _json({"said": said})
        raise NotFoundError(f"{request.method} {request.path} is not served; see modelplane sim --help")


async def _read(request: web.BaseRequest) -> SimCommand:
    body = await request.content.read(_MOST_BYTES)
    try:
        return msgspec.json.decode(body, type=SimCommand)
    except msgspec.DecodeError as error:
        raise InputError(f"the body is not what modelplane sim sends: {error}") from error


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _reached(clusters: Clusters, ask: SimCommand) -> SimulatedCluster:
    clusters.declared(ask.where)
    found = clusters.get(ask.where)
    if found is None:
        raise UnavailableError(f"cluster {ask.cluster} is not simulated yet")
    if not found.reachable:
        raise UnavailableError(f"cluster {ask.cluster} is dark; `modelplane sim recover cluster {ask.cluster}` first")
    return found


def _pool(clusters: Clusters, ask: SimCommand) -> None:
    pools = clusters.pools(ask.where)
    if ask.name not in pools:
        raise NotFoundError(f"cluster {ask.cluster} has no pool {ask.name}; it has {', '.join(pools) or 'none'}")


def _pods(count: int) -> str:
    return "1 pod is" if count == 1 else f"{count} pods are"
