"""`modelplane logs`: what the engines of a deployment or a replica print.

Engines of `up --this-machine` are processes, and what they print is in files of the data folder. Those of a control
plane on Kubernetes are pods of workload clusters, whose own API has their logs. Simulated engines print nothing.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.objects import API_VERSION, Manifest, items_at, name_of, namespace_of, text_at
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._kinds import read_target
from modelplane.cli._objects import ApiResource, add_namespace
from modelplane.cli.running import RunningPlane
from modelplane.k8s.admission.decode import escape

_EPILOG = """\
examples:
  modelplane logs md/qwen3-8b                     of every engine of its replicas
  modelplane logs mr qwen3-8b-ve5dztjuov --tail 20
  modelplane logs md/qwen3-8b -f                  and what they print from now on, until Ctrl-C
  modelplane logs md/qwen3-8b --kubeconfig ~/.kube/config
  modelplane logs md/qwen3-8b --kubeconfig ~/.kube/config --cluster east=east.kubeconfig

Of a plane of this machine, logs are kept for pods of `modelplane up --this-machine`; simulated engines print nothing.
With --kubeconfig it reads the pods of every cluster that has replicas, by the kubeconfig Secret of its
InferenceCluster, which one must be allowed to read, or by the file of --cluster. -f follows the pods that are there as
it begins.

Exit codes: 0 shown, 1 refused, or something could not be read: what could is shown.
"""
KINDS: Final = {"ModelDeployment": "deployment", "ModelReplica": "replica"}
_DEPLOYMENTS: Final = ApiResource(API_VERSION, "ModelDeployment", "modeldeployments", namespaced=True)
_REPLICAS: Final = ApiResource(API_VERSION, "ModelReplica", "modelreplicas", namespaced=True)
_EVERY_S = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows what engines print, on this machine or on the clusters of a control plane."
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="KIND/NAME", nargs="+", help="a ModelDeployment or a ModelReplica")
    add_namespace(parser)
    add_plane(parser)
    parser.add_argument(
        "--cluster", type=_cluster_file, action="append", default=[], metavar="NAME=FILE",
        help="the kubeconfig of a workload cluster (that of the control plane); may be repeated",
    )  # fmt: skip
    parser.add_argument("--tail", type=_count, metavar="N", help="the last N lines of each container (all)")
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
    kind, name = read_target(arguments.words, KINDS)
    if arguments.kubeconfig is not None:
        return _show_pods(arguments, kind, name)
    if arguments.cluster:
        raise InputError("--cluster goes with --kubeconfig: engines of this machine have files")
    plane = RunningPlane.of(arguments.data)
    read: dict[Path, ContainerLog] = {}
    tail = arguments.tail
    while True:
        for path in log_files(arguments.data, replicas_of(plane, kind, arguments.namespace, name)):
            read.setdefault(path, ContainerLog(path))
        for line in _new_lines(read.values(), tail, follow=arguments.follow):
            print(line, flush=arguments.follow)
        if not arguments.follow:
            return 0
        tail = None
        time.sleep(_EVERY_S)


def _show_pods(arguments: argparse.Namespace, kind: str, name: str) -> int:
    from modelplane.cli._pod_logs import PodLogReader

    plane = plane_of(arguments)
    replicas = replicas_of(plane, kind, arguments.namespace, name)
    if not replicas:
        raise NotFoundError("there are no replicas, so nothing was printed; `modelplane status` says why")
    reader = PodLogReader(plane, dict(arguments.cluster))
    containers = reader.containers(replicas)
    for line in reader.lines(containers, arguments.tail, follow=arguments.follow):
        print(line, flush=arguments.follow)
    if not containers and not reader.problems:
        raise NotFoundError("its replicas have no pods yet; `modelplane trace` says what they wait for")
    return reader.report()


def replicas_of(plane: RunningPlane, kind: str, namespace: str, name: str) -> list[Manifest]:
    """The replica of that name, or those of the deployment."""
    if kind == "ModelReplica":
        return [plane.request("GET", _REPLICAS.path(namespace, name))]
    plane.request("GET", _DEPLOYMENTS.path(namespace, name))
    found = items_at(plane.request("GET", _REPLICAS.path(namespace)), "items")
    return [item for item in found if text_at(item, "spec", "deployment", "name") == name]


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
