"""`modelplane sim`: trouble for the simulated clusters of a running plane, to watch what becomes of it."""

import argparse
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from modelplane.api.errors import InputError, UnavailableError
from modelplane.cli.running import RunningPlane, add_data_argument

_EPILOG = """\
examples:
  modelplane sim show east                      its nodes and pods, by the names that the others take
  modelplane sim fail cluster east              the whole cluster goes dark
  modelplane sim recover cluster east
  modelplane sim lose node east h200-0          the machine is gone; its cluster finds out later
  modelplane sim restore node east h200-0
  modelplane sim cordon node east h200-0        no more pods come; `uncordon` undoes it
  modelplane sim drain node east h200-0         and those that are there leave
  modelplane sim crash pod east NAMESPACE/POD   its containers exit once, and are restarted
  modelplane sim slow-load east 60              engines that start there load for a minute; `off` undoes it
  modelplane sim slow-pull east 60              and images of pods arrive after a minute
  modelplane sim faults east error_rate=0.1     a tenth of the requests fail there; `off` undoes it
  modelplane sim faults east stalled --pod NAMESPACE/POD
  modelplane sim stock-out east h200            the provider has no node of that pool; `--nodes 1` leaves one
  modelplane sim restock east h200
  modelplane sim quota east 16                  devices that a queue of KAI, Kueue or Volcano gives away; or `off`

Watch what happens with `modelplane status`, on the page that `modelplane up` prints, or with kubectl. What concerns a
whole cluster is an annotation of its InferenceCluster, so kubectl does it as well:
  kubectl annotate inferencecluster east sim.modelplane.ai/failed=true
"""
_TIMEOUT_S = 10.0
_PAIRS = {
    "fail": ("cluster",),
    "recover": ("cluster",),
    "lose": ("node",),
    "restore": ("node",),
    "cordon": ("node",),
    "uncordon": ("node",),
    "drain": ("node",),
    "crash": ("pod",),
}
_HELP = {
    "fail": "a whole cluster goes dark",
    "recover": "it comes back, as after a power cut",
    "lose": "a node's machine is gone",
    "restore": "it is back",
    "cordon": "a node takes no more pods",
    "uncordon": "it does again",
    "drain": "a node takes no more pods, and those on it leave",
    "crash": "a pod's containers exit once",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Makes trouble for the simulated clusters of a running plane, and says what happens."
    parser.epilog = _EPILOG
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    show = verbs.add_parser("show", help="the nodes and pods of a cluster")
    show.add_argument("cluster")
    for verb, things in _PAIRS.items():
        added = verbs.add_parser(verb, help=_HELP[verb])
        added.add_argument("thing", choices=things, help=f"always `{things[0]}`")
        added.add_argument("cluster")
        if things != ("cluster",):
            added.add_argument("name", help="NAMESPACE/POD" if things == ("pod",) else "name of the node")
    for verb, what in (("slow-load", "engines that start load their models"), ("slow-pull", "images take to arrive")):
        slow = verbs.add_parser(verb, help=f"how long {what}")
        slow.add_argument("cluster")
        slow.add_argument("value", metavar="SECONDS", help="a number of seconds, or `off`")
    _configure_faults(verbs.add_parser("faults", help="what goes wrong with engines, while they run"))
    _configure_node_loss(verbs.add_parser("node-loss", help="the same as `lose node`"))
    stock = verbs.add_parser("stock-out", help="a pool has no nodes, or only some")
    stock.add_argument("cluster")
    stock.add_argument("name", metavar="POOL")
    stock.add_argument("--nodes", dest="value", default="0", metavar="N", help="how many there are to be had (0)")
    restock = verbs.add_parser("restock", help="it has as many as it asks for")
    restock.add_argument("cluster")
    restock.add_argument("name", metavar="POOL")
    quota = verbs.add_parser("quota", help="devices that the queue of a cluster's scheduler gives away")
    quota.add_argument("cluster")
    quota.add_argument("value", metavar="DEVICES", help="a number, or `off`")
    for added in verbs.choices.values():
        add_data_argument(added)


def _configure_faults(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "error_rate, delay_rate, cut_rate, hang_rate, crash_rate: shares of requests. error_status, delay_s, "
        "cut_after, crash_after: how. stalled: no token comes. Each call says all of them; `off` ends them."
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
    if arguments.verb == "show":
        _show(_call(plane, f"/clusters/{quote(arguments.cluster, safe='')}"))
    else:
        print(_call(plane, "", placement_request(arguments))["said"])
    return 0


def placement_request(arguments: argparse.Namespace) -> dict[str, str]:
    """What is sent for a command line."""
    given = vars(arguments)
    verb = f"{arguments.verb}-{arguments.thing}" if given.get("thing") else arguments.verb
    ask = {"verb": verb, "cluster": arguments.cluster, "name": given.get("name", ""), "value": given.get("value", "")}
    match verb:
        case "restock":
            return {**ask, "verb": "stock-out", "value": "off"}
        case "node-loss":
            return {**ask, "verb": "lose-node"}
        case "faults":
            return {**ask, "value": ",".join(arguments.faults)}
        case _:
            return ask


def _call(plane: RunningPlane, path: str, body: Mapping[str, str] | None = None) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {plane.token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    url = f"{plane.server}/modelplane/sim{path}"
    request = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310  our own https address
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=plane.context) as answer:  # noqa: S310  as above
            found: dict[str, object] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        raise InputError(_message(error)) from error
    except urllib.error.URLError as error:
        raise UnavailableError(f"the plane at {plane.server} does not answer: {error.reason}") from error


def _message(error: urllib.error.HTTPError) -> str:
    """The sentence of a Status object."""
    try:
        found = json.load(error)
    except ValueError:
        return str(error)
    return str(found.get("message") if isinstance(found, dict) else error)


def _show(found: Mapping[str, object]) -> None:
    _table(("NODE", "POOL", "STATE", "DEVICES"), found["nodes"], ("name", "pool", "state", "devices"))
    _table(("POD", "NODE", "STATE", "RESTARTS", "WHY"), found["pods"], ("name", "node", "state", "restarts", "why"))
    if found["warnings"]:
        _table(("WARNING ABOUT", "REASON", "TIMES", ""), found["warnings"], ("about", "reason", "times", "message"))


def _table(columns: Sequence[str], rows: object, fields: Sequence[str]) -> None:
    found: Iterable[Mapping[str, str]] = rows if isinstance(rows, list) else ()
    lines = [list(columns), *([row[field] or "-" for field in fields] for row in found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    for line in lines:
        print("  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip())
    print()
