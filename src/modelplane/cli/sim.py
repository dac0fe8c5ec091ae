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
  modelplane sim stock-out east h200            the provider has no node of that pool; `--nodes 1` leaves one
  modelplane sim restock east h200
  modelplane sim quota east 16                  devices that the queue of its scheduler gives away; `off` undoes it

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
    slow = verbs.add_parser("slow-load", help="how long engines that start load their models")
    slow.add_argument("cluster")
    slow.add_argument("value", metavar="SECONDS", help="a number of seconds, or `off`")
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


def run(arguments: argparse.Namespace) -> int:
    plane = RunningPlane.of(arguments.data)
    if arguments.verb == "show":
        _show(_call(plane, f"/clusters/{quote(arguments.cluster, safe='')}"))
    else:
        print(_call(plane, "", ask_of(arguments))["said"])
    return 0


def ask_of(arguments: argparse.Namespace) -> dict[str, str]:
    """What is sent for a command line."""
    given = vars(arguments)
    verb = f"{arguments.verb}-{arguments.thing}" if given.get("thing") else arguments.verb
    ask = {"verb": verb, "cluster": arguments.cluster, "name": given.get("name", ""), "value": given.get("value", "")}
    return {**ask, "verb": "stock-out", "value": "off"} if verb == "restock" else ask


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
    _table(("NODE", "POOL", "STATE"), found["nodes"], ("name", "pool", "state"))
    _table(("POD", "NODE", "STATE"), found["pods"], ("name", "node", "state"))


def _table(columns: Sequence[str], rows: object, fields: Sequence[str]) -> None:
    found: Iterable[Mapping[str, str]] = rows if isinstance(rows, list) else ()
    lines = [list(columns), *([row[field] or "-" for field in fields] for row in found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    for line in lines:
        print("  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip())
    print()
