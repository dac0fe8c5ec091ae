"""`modelplane sim`: failures and shortages in the simulated clusters of a running plane."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from modelplane.api.objects import items_at, name_of, text_at
from modelplane.cli._formats import table_text
from modelplane.cli._near import near_name, suggesting
from modelplane.cli.running import RunningPlane, add_data_argument

_EPILOG = """\
examples:
  modelplane sim show east                      its nodes, pods and warnings
  modelplane sim fail east                      its API, gateway and engines stop
  modelplane sim recover east
  modelplane sim lose node east h200-0          the node turns NotReady after its grace period
  modelplane sim restore node east h200-0
  modelplane sim cordon node east h200-0        no pods are scheduled there; `uncordon` undoes it
  modelplane sim drain node east h200-0         cordon it and evict its pods, by their PodDisruptionBudgets
  modelplane sim taint-devices east h200-0 gpu-3   their driver reports them as unhealthy; `off` undoes it
  modelplane sim crash pod east NAMESPACE/POD   its containers exit once and restart
  modelplane sim slow-load east 60              new engines take 60 s to load; `off` undoes it
  modelplane sim slow-pull east 60              new pods take 60 s to pull images
  modelplane sim slow-source east 20            caches are staged 20 times slower; `off` undoes it
  modelplane sim break-source east Unauthorized  new stagings end so; `off` undoes it
  modelplane sim empty-volume east qwen3-8b     pods that start on it fail until it is staged again
  modelplane sim faults east error_rate=0.1     10 % of its requests fail; `off` undoes it
  modelplane sim faults east stalled --pod NAMESPACE/POD
  modelplane sim stock-out east h200            the provider has no node of that pool; `--nodes 1` leaves one
  modelplane sim restock east h200
  modelplane sim quota east 16                  the GPU quota of its KAI, Kueue or Volcano queue; or `off`
  modelplane sim resource-quota east NAMESPACE pods=2   a ResourceQuota there; `off` removes it
  modelplane sim image remove east vllm/vllm-openai:v0.27.1   new pods cannot pull it; `add` undoes it
  modelplane sim image add east acme/engine --pull-secret key  it can be pulled, with that Secret
  modelplane sim flag remove east max-num-seqs   engines that get this option exit; `add` undoes it
  modelplane sim secret add east NAMESPACE/NAME KEY=VALUE   `remove` deletes it; without keys a pull Secret
  modelplane sim oom pod east NAMESPACE/POD     its engine is killed for want of memory
  modelplane sim foreign east --pool h200 --gpus 2 --count 3   pods of others hold devices; `--count 0` removes them

`modelplane status`, the page that `modelplane up` prints and kubectl show the effects. A command to a whole cluster
sets an annotation of its InferenceCluster, so kubectl works as well:
  kubectl annotate inferencecluster east sim.modelplane.ai/failed=true
"""
_PREFIX = "/modelplane/sim"
_PAIRS = {
    "fail": ("cluster",),
    "recover": ("cluster",),
    "lose": ("node",),
    "restore": ("node",),
    "cordon": ("node",),
    "uncordon": ("node",),
    "drain": ("node",),
    "crash": ("pod",),
    "oom": ("pod",),
}
_WITH_ACTIONS = ("image", "flag", "secret")
_HELP = {
    "fail": "stop a cluster's API, gateway and engines",
    "recover": "start it again; every container restarts",
    "lose": "lose a node",
    "restore": "bring a lost node back",
    "cordon": "mark a node unschedulable",
    "uncordon": "mark a node schedulable",
    "drain": "cordon a node and evict its pods",
    "crash": "make a pod's containers exit once",
    "oom": "kill a pod's engine for want of memory",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Causes failures and shortages in the simulated clusters of a running plane."
    parser.epilog = _EPILOG
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    show = verbs.add_parser("show", help="the nodes and pods of a cluster")
    show.add_argument("cluster")
    for verb, things in _PAIRS.items():
        added = verbs.add_parser(verb, help=_HELP[verb])
        _configure_target(added, things[0])
    for verb, what in (
        ("slow-load", "new engines take to load their models"),
        ("slow-pull", "new pods take to pull their images"),
    ):
        slow = verbs.add_parser(verb, help=f"how long {what}")
        slow.add_argument("cluster")
        slow.add_argument("value", metavar="SECONDS", help="a number of seconds, or `off`")
    slow = verbs.add_parser("slow-source", help="how much slower caches are staged")
    slow.add_argument("cluster")
    slow.add_argument("value", metavar="TIMES", help="a whole number, or `off`")
    broken = verbs.add_parser("break-source", help="how the sources of caches fail")
    broken.add_argument("cluster")
    broken.add_argument("value", metavar="REASON", help="SourceNotFound, Unauthorized and others, or `off`")
    emptied = verbs.add_parser("empty-volume", help="remove what is on the volume of a cache")
    emptied.add_argument("cluster")
    emptied.add_argument("name", metavar="[NAMESPACE/]CACHE", help="name of the ModelCache")
    tainted = verbs.add_parser("taint-devices", help="which devices of a node are unhealthy")
    tainted.add_argument("cluster")
    tainted.add_argument("name", metavar="NODE")
    tainted.add_argument("value", metavar="DEVICES", help="their names with commas between, or `off`")
    _configure_faults(verbs.add_parser("faults", help="faults of running engines"))
    _configure_node_loss(verbs.add_parser("node-loss", help="the same as `lose node`"))
    stock = verbs.add_parser("stock-out", help="limit the nodes of a pool")
    stock.add_argument("cluster")
    stock.add_argument("name", metavar="POOL")
    stock.add_argument("--nodes", dest="value", default="0", metavar="N", help="how many nodes the provider has (0)")
    restock = verbs.add_parser("restock", help="remove that limit")
    restock.add_argument("cluster")
    restock.add_argument("name", metavar="POOL")
    quota = verbs.add_parser("quota", help="the GPU quota of a cluster's scheduler queue")
    quota.add_argument("cluster")
    quota.add_argument("value", metavar="DEVICES", help="a number, or `off`")
    _configure_failures(verbs)
    for verb, added in verbs.choices.items():
        if verb not in _WITH_ACTIONS:
            add_data_argument(added)


def _configure_target(parser: argparse.ArgumentParser, thing: str) -> None:
    """The kind may be left out: `fail east` is `fail cluster east`."""
    shown = {"cluster": "CLUSTER", "node": "CLUSTER NODE", "pod": "CLUSTER NAMESPACE/POD"}[thing]
    parser.usage = f"%(prog)s [{thing}] {shown} [--data DIR]"
    parser.set_defaults(thing=thing)
    parser.add_argument("target", nargs="+", action=_Target, metavar=shown, help=f"`{thing}` may stand before it")


class _Target(argparse.Action):
    """Reads `[kind] CLUSTER [NAME]`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        _option_string: str | None = None,
    ) -> None:
        words = [str(value) for value in values or ()]
        if words[0] == namespace.thing:
            del words[0]
        if len(words) != (1 if namespace.thing == "cluster" else 2):
            parser.error(f"expected {self.metavar}")
        namespace.cluster, namespace.name = words[0], "".join(words[1:])


def _configure_failures(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    image = _actions(verbs.add_parser("image", help="images that a cluster can pull"), "add", "remove", "list")
    for name in ("add", "remove"):
        image[name].add_argument("name", metavar="IMAGE")
    image["add"].add_argument("--pull-secret", dest="value", default="", metavar="NAME", help="that the image needs")
    flag = _actions(verbs.add_parser("flag", help="options that a cluster's engines have"), "add", "remove")
    for action in flag.values():
        action.add_argument("name", metavar="OPTION", help="without the dashes in front: max-num-seqs")
    secret = _actions(verbs.add_parser("secret", help="Secrets on a cluster"), "add", "remove")
    for action in secret.values():
        action.add_argument("name", metavar="NAMESPACE/NAME")
    secret["add"].add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="none: a pull Secret")
    quota = verbs.add_parser("resource-quota", help="the ResourceQuota of a namespace")
    quota.add_argument("cluster")
    quota.add_argument("name", metavar="NAMESPACE")
    quota.add_argument("pairs", nargs="+", metavar="RESOURCE=AMOUNT", help="or `off`")
    foreign = verbs.add_parser("foreign", help="pods of others that hold devices")
    foreign.add_argument("cluster")
    foreign.add_argument("--pool", dest="name", required=True)
    foreign.add_argument("--gpus", default="1", metavar="N", help="devices of each pod (1)")
    foreign.add_argument("--count", default="1", metavar="N", help="how many pods (1); 0 removes them")


def _actions(parser: argparse.ArgumentParser, *names: str) -> dict[str, argparse.ArgumentParser]:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = {name: actions.add_parser(name) for name in names}
    for added in made.values():
        added.add_argument("cluster")
        add_data_argument(added)
    return made


def _configure_faults(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "error_rate, delay_rate, cut_rate, hang_rate, crash_rate: shares of requests. error_status, delay_s, "
        "cut_after, crash_after: how. stalled: no tokens are generated. "
        "Each call replaces the previous faults; `off` removes them."
    )
    parser.add_argument("cluster")
    parser.add_argument("faults", nargs="+", metavar="FAULT=VALUE", help="or `off`")
    parser.add_argument(
        "--pod", dest="name", default="", metavar="NAMESPACE/POD", help="for the engine of one pod only"
    )


def _configure_node_loss(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cluster")
    parser.add_argument("name", help="name of the node")


def run(arguments: argparse.Namespace) -> int:
    plane = RunningPlane.of(arguments.data)
    with suggesting(lambda: _hint(plane, arguments)):
        if arguments.verb == "show":
            _show(plane.request("GET", _inventory(arguments.cluster)))
        else:
            print(plane.request("POST", _PREFIX, command_of(arguments), sent="application/json")["said"])
    return 0


def command_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The command of a command line."""
    given = vars(arguments)
    second = given.get("thing") or given.get("action")
    verb = f"{arguments.verb}-{second}" if second else arguments.verb
    command = {
        "verb": verb,
        "cluster": arguments.cluster,
        "name": given.get("name", ""),
        "value": given.get("value", ""),
    }
    match verb:
        case "restock":
            return {**command, "verb": "stock-out", "value": "off"}
        case "node-loss":
            return {**command, "verb": "lose-node"}
        case "faults":
            return {**command, "value": ",".join(arguments.faults)}
        case "secret-add" | "resource-quota":
            return {**command, "value": "\n".join(arguments.pairs)}
        case "foreign":
            return {**command, "value": f"{arguments.gpus}x{arguments.count}"}
        case _:
            return command


def _hint(plane: RunningPlane, arguments: argparse.Namespace) -> str:
    """The nearest cluster; where that is right, the nearest node or pod."""
    clusters = [name_of(item) for item in plane.items("inferenceclusters")]
    if arguments.cluster not in clusters:
        return near_name(arguments.cluster, clusters)
    shown = plane.request("GET", _inventory(arguments.cluster))
    names = [text_at(row, "name") for part in ("nodes", "pods") for row in items_at(shown, part)]
    return near_name(vars(arguments).get("name", ""), names)


def _inventory(cluster: str) -> str:
    return f"{_PREFIX}/clusters/{quote(cluster, safe='')}"


def _show(found: Mapping[str, object]) -> None:
    _table(("NODE", "POOL", "STATE", "DEVICES"), found["nodes"], ("name", "pool", "state", "devices"))
    _table(("POD", "NODE", "STATE", "RESTARTS", "WHY"), found["pods"], ("name", "node", "state", "restarts", "why"))
    if found["warnings"]:
        _table(("WARNING ABOUT", "REASON", "TIMES", ""), found["warnings"], ("about", "reason", "times", "message"))


def _table(columns: Sequence[str], rows: object, fields: Sequence[str]) -> None:
    found: Iterable[Mapping[str, str]] = rows if isinstance(rows, list) else ()
    print(table_text(columns, ([row[field] or "-" for field in fields] for row in found)))
