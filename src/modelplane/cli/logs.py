"""`modelplane logs`: what the engines of a deployment or a replica print.

Engines of `up --this-machine` are processes, and what they print is in files of the data folder. Those of a control
plane on Kubernetes are pods of workload clusters, whose own API has their logs. Simulated engines print nothing.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.objects import Manifest, items_at, name_of, namespace_of, text_at
from modelplane.cli._formats import add_plane, duration_s, plane_of
from modelplane.cli._kinds import read_target
from modelplane.cli._objects import DEPLOYMENTS, REPLICAS, PlaneObjects, add_namespace
from modelplane.cli._selection import add_labels
from modelplane.cli.running import RunningPlane, is_of_a_plane
from modelplane.k8s.admission.decode import escape

_EPILOG = """\
examples:
  modelplane logs md/qwen3-8b                     of every engine of its replicas
  modelplane logs md/qwen3-8b md/llama            of several
  modelplane logs md -l team=search --since 10m   of deployments with a label
  modelplane logs mr qwen3-8b-ve5dztjuov --tail 20
  modelplane logs md/qwen3-8b -f                  and what they print from now on, until Ctrl-C
  modelplane logs md/qwen3-8b --kubeconfig ~/.kube/config -c engine --previous   of a container before it restarted
  modelplane logs md/qwen3-8b --kubeconfig ~/.kube/config --cluster east=east.kubeconfig

Of a plane of this machine, logs are kept for pods of `modelplane up --this-machine`; simulated engines print nothing.
With --kubeconfig it reads the pods of every cluster that has replicas, by the kubeconfig Secret of its
InferenceCluster, which one must be allowed to read, or by the file of --cluster. -f follows the pods that are there as
it begins. --since, --timestamps and --previous need --kubeconfig: files of this machine have lines without times.

Exit codes: 0 shown, 1 refused, or something could not be read: what could is shown.
"""
KINDS: Final = {"ModelDeployment": "deployment", "ModelReplica": "replica"}
_EVERY_S = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows what engines print, on this machine or on the clusters of a control plane."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="KIND/NAME", nargs="*", help="ModelDeployments or ModelReplicas")
    add_labels(parser)
    add_namespace(parser)
    add_plane(parser)
    parser.add_argument(
        "--cluster", type=_cluster_file, action="append", default=[], metavar="NAME=FILE",
        help="the kubeconfig of a workload cluster (that of the control plane); may be repeated",
    )  # fmt: skip
    parser.add_argument("--tail", type=_count, metavar="N", help="the last N lines of each container (all)")
    parser.add_argument("--since", type=duration_s, metavar="TIME", help="lines of the last 90s, 10m or 2h")
    parser.add_argument("-c", "--container", default="", metavar="NAME", help="of one container (all)")
    parser.add_argument("-p", "--previous", action="store_true", help="of the container that ran before a restart")
    parser.add_argument("--timestamps", action="store_true", help="each line with its time")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with new lines, until interrupted")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def _cluster_file(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if not name or not equals or not file:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE")
    return name, Path(file)


def run(arguments: argparse.Namespace) -> int:
    targets = _targets(arguments)
    if arguments.kubeconfig is not None and is_of_a_plane(arguments.kubeconfig):
        arguments.data, arguments.kubeconfig = arguments.kubeconfig.parent, None
    if arguments.kubeconfig is not None:
        return _show_pods(arguments, targets)
    for option in ("cluster", "since", "timestamps", "previous"):
        if getattr(arguments, option):
            raise InputError(f"--{option} goes with --kubeconfig: engines of this machine have files")
    plane = RunningPlane.of(arguments.data)
    read: dict[Path, ContainerLog] = {}
    tail = arguments.tail
    while True:
        for path in log_files(arguments.data, _replicas(plane, targets, arguments)):
            if arguments.container in {"", path.stem}:
                read.setdefault(path, ContainerLog(path))
        for line in _new_lines(read.values(), tail, follow=arguments.follow):
            print(line, flush=arguments.follow)
        if not arguments.follow:
            return 0
        tail = None
        time.sleep(_EVERY_S)


def _targets(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Kinds with names; with -l, a kind alone."""
    words = arguments.words
    if arguments.selector:
        kind = read_target([*(words or ["md"]), "x"], KINDS)[0]
        return [(kind, "")]
    if not words:
        raise InputError("give md/NAME or mr/NAME, or labels of deployments by -l")
    if all("/" in word for word in words):
        return [read_target([word], KINDS) for word in words]
    return [read_target([words[0], name], KINDS) for name in words[1:]] or [read_target(words, KINDS)]


def _replicas(plane: RunningPlane, targets: Sequence[tuple[str, str]], arguments: argparse.Namespace) -> list[Manifest]:
    """Those of all targets, each once."""
    namespace, found = arguments.namespace, []
    for kind, name in targets:
        found += replicas_of(plane, kind, namespace, name) if name else _labelled(plane, kind, arguments)
    return list({name_of(item): item for item in found}.values())


def _labelled(plane: RunningPlane, kind: str, arguments: argparse.Namespace) -> list[Manifest]:
    objects = PlaneObjects(plane)
    resource = REPLICAS if kind == "ModelReplica" else DEPLOYMENTS
    items = objects.list(resource, arguments.namespace, arguments.selector)
    if not items:
        raise NotFoundError(f"no {kind} in namespace {arguments.namespace} has the labels {arguments.selector}")
    if kind == "ModelReplica":
        return list(items)
    names = {name_of(item) for item in items}
    found = objects.list(REPLICAS, arguments.namespace)
    return [item for item in found if text_at(item, "spec", "deployment", "name") in names]


def _show_pods(arguments: argparse.Namespace, targets: Sequence[tuple[str, str]]) -> int:
    from modelplane.cli._pod_logs import LogRange, PodLogReader

    plane = plane_of(arguments)
    replicas = _replicas(plane, targets, arguments)
    if not replicas:
        raise NotFoundError("there are no replicas, so nothing was printed; `modelplane status` says why")
    wanted = LogRange(
        tail=arguments.tail,
        since_s=None if arguments.since is None else ceil(arguments.since),
        follow=arguments.follow,
        previous=arguments.previous,
        timestamps=arguments.timestamps,
    )
    reader = PodLogReader(plane, dict(arguments.cluster))
    containers = [each for each in reader.containers(replicas) if arguments.container in {"", each.name}]
    for line in reader.lines(containers, wanted):
        print(line, flush=arguments.follow)
    if not containers and not reader.problems:
        what = (
            f"no pod has a container {arguments.container}" if arguments.container else "its replicas have no pods yet"
        )
        raise NotFoundError(f"{what}; `modelplane trace` says what they wait for")
    return 1 if reader.problems else 0


def replicas_of(plane: RunningPlane, kind: str, namespace: str, name: str) -> list[Manifest]:
    """The replica of that name, or those of the deployment."""
    objects = PlaneObjects(plane)
    if kind == "ModelReplica":
        return [objects.get(REPLICAS, namespace, name)]
    objects.get(DEPLOYMENTS, namespace, name)
    return [item for item in objects.list(REPLICAS, namespace) if text_at(item, "spec", "deployment", "name") == name]


def log_files(data: Path, replicas: Sequence[Manifest]) -> list[Path]:
    """One for each container that printed. A name has no wildcard: the API has checked it."""
    from modelplane.compose.context import remote_namespace, workload_name
    from modelplane.machine.fleet import CLUSTER

    here = [item for item in replicas if text_at(item, "spec", "clusterName") == CLUSTER]
    if not here:
        raise _not_kept(replicas)
    pods = [
        data / CLUSTER / "logs" / remote_namespace(namespace_of(item)) / workload_name(name_of(item), engine)
        for item in here
        for engine in (text_at(each, "name") for each in items_at(item, "spec", "engines"))
    ]
    return sorted(file for pod in pods for file in pod.parent.glob(f"{pod.name}-*/*.log"))


def _not_kept(replicas: Sequence[Manifest]) -> InputError | NotFoundError:
    if not replicas:
        return NotFoundError("there are no replicas, so nothing was printed; `modelplane status` says why")
    clusters = ", ".join(sorted({text_at(item, "spec", "clusterName") for item in replicas}))
    return InputError(
        f"its replicas are on {clusters}; logs are kept for pods of `modelplane up --this-machine` alone: simulated "
        "engines print nothing, and `--kubeconfig` reads pods of a control plane on Kubernetes"
    )


@dataclass(slots=True)
class ContainerLog:
    """The file of one container, which grows, and how far it was read."""

    path: Path
    position: int = 0

    @property
    def title(self) -> str:
        return f"[{self.path.parent.name}/{self.path.stem}]"

    def lines(self, *, whole: bool) -> list[str]:
        """Those since the last call. Without `whole` a line that is not ended yet is left for the next one."""
        with self.path.open("rb") as file:
            file.seek(self.position)
            found = file.read()
        if not whole:
            found = found[: found.rfind(b"\n") + 1]
        self.position += len(found)
        return found.decode(errors="replace").splitlines()


def _new_lines(logs: Iterable[ContainerLog], tail: int | None, *, follow: bool) -> Iterator[str]:
    """Each with its pod and container. What an engine prints stays text on a terminal."""
    for log in logs:
        for line in deque(log.lines(whole=not follow), tail):
            yield f"{log.title} {escape(line.expandtabs())}"
