"""Logs of pods on Kubernetes: through the pod log API of the clusters that replicas are on.

A cluster is reached with the kubeconfig that Modelplane itself uses, a Secret of the control plane, or with one that
the command names. Pods are found by the label of their replica.
"""

import base64
import http.client
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from modelplane.api.codec import decode
from modelplane.api.errors import InputError, ModelplaneError, NotFoundError
from modelplane.api.labels import REPLICA, SYSTEM_NAMESPACE
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import API_VERSION, Manifest, items_at, mapping_at, name_of, namespace_of, text_at
from modelplane.cli.kubeconfig import kubeconfig_of, read_kubeconfig
from modelplane.cli.running import RunningPlane
from modelplane.compose.context import remote_namespace
from modelplane.crossplane.access import access_of
from modelplane.k8s.admission.decode import escape

_AT_A_TIME: Final = 16
"""Clusters that are asked for their pods at once: one that does not answer takes seconds."""
_FAULTS: Final = (ModelplaneError, OSError, http.client.HTTPException)
"""The last: a stream that ends in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Which lines of a log."""

    tail: int | None = None
    since_s: int | None = None
    follow: bool = False
    previous: bool = False
    timestamps: bool = False

    def options(self) -> dict[str, str]:
        """As the pod log API spells them."""
        numbers = {"tailLines": self.tail, "sinceSeconds": self.since_s}
        marks = {"follow": self.follow, "previous": self.previous, "timestamps": self.timestamps}
        return {
            **{name: str(value) for name, value in numbers.items() if value is not None},
            **{name: "true" for name, given in marks.items() if given},
        }


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A container of a pod, on the cluster that has it."""

    api: RunningPlane
    cluster: str
    namespace: str
    pod: str
    name: str

    @property
    def title(self) -> str:
        return f"[{self.cluster}/{self.pod}/{self.name}]"

    def lines(self, wanted: LogRange) -> Iterator[str]:
        """Each with where it comes from. What an engine prints stays text on a terminal."""
        options = {"container": self.name, **wanted.options()}
        path = f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods/{quote(self.pod, safe='')}/log"
        for line in self.api.lines(f"{path}?{urlencode(options)}", timeout_s=None if wanted.follow else 60.0):
            yield f"{self.title} {escape(line.expandtabs())}"


@dataclass(slots=True)
class PodLogReader:
    """Reads logs of the replicas of a control plane. What cannot be read is a line on standard error, at once."""

    plane: RunningPlane
    kubeconfigs: Mapping[str, Path] = field(default_factory=dict)
    """By cluster: used instead of the Secret that the InferenceCluster names."""
    problems: int = 0

    def containers(self, replicas: Iterable[Manifest]) -> list[PodContainer]:
        by_cluster: dict[str, list[Manifest]] = {}
        for item in replicas:
            by_cluster.setdefault(text_at(item, "spec", "clusterName"), []).append(item)
        # Only clusters, which may be dark, are waited for side by side. The control plane has one caller.
        apis = [(cluster, self._reached(cluster), items) for cluster, items in sorted(by_cluster.items())]
        known = [(cluster, api, items) for cluster, api, items in apis if api is not None]
        with ThreadPoolExecutor(max_workers=_AT_A_TIME) as pool:
            found = list(pool.map(lambda each: self._listed(*each), known))
        return [container for containers in found for container in containers]

    def _reached(self, cluster: str) -> RunningPlane | None:
        try:
            return self._cluster(cluster)
        except _FAULTS as problem:
            self._note(f"cluster {cluster}: {problem}")
            return None

    def _listed(self, cluster: str, api: RunningPlane, replicas: Sequence[Manifest]) -> list[PodContainer]:
        try:
            return list(_containers(cluster, api, replicas))
        except _FAULTS as problem:
            self._note(f"cluster {cluster}: {problem}")
            return []

    def _note(self, problem: str) -> None:
        self.problems += 1
        print(problem, file=sys.stderr, flush=True)

    def _cluster(self, name: str) -> RunningPlane:
        if name in self.kubeconfigs:
            return read_kubeconfig(self.kubeconfigs[name])
        path = f"/apis/{API_VERSION}/inferenceclusters/{quote(name, safe='')}"
        access = access_of(decode(InferenceCluster, self.plane.request("GET", path)))
        if access is None or access.identity is not None:
            raise InputError(f"no kubeconfig that works from here is known; give one with --cluster {name}=FILE")
        secret, key = access.kubeconfig.name, access.kubeconfig.key
        where = f"Secret {SYSTEM_NAMESPACE}/{secret}"
        try:
            held = self.plane.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{quote(secret, safe='')}")
            text = base64.b64decode(text_at(mapping_at(held, "data"), key), validate=True)
        except (NotFoundError, InputError) as problem:
            raise InputError(f"{where}: {problem}; --cluster {name}=FILE gives another kubeconfig") from None
        except ValueError:
            raise InputError(f"{where}: {key} is not base64") from None
        return kubeconfig_of(text, where, folder=None)

    def lines(self, containers: Sequence[PodContainer], wanted: LogRange) -> Iterator[str]:
        if wanted.follow:
            yield from self._followed(containers, wanted)
            return
        for container in containers:
            yield from self._read(container, wanted)

    def _read(self, container: PodContainer, wanted: LogRange) -> Iterator[str]:
        try:
            yield from container.lines(wanted)
        except _FAULTS as problem:
            self._note(f"{container.title} {problem}")

    def _followed(self, containers: Sequence[PodContainer], wanted: LogRange) -> Iterator[str]:
        """All at once, until each of them has ended."""
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def follow(container: PodContainer) -> None:
            try:
                for line in self._read(container, wanted):
                    lines.put(line)
            finally:
                lines.put(None)

        for container in containers:
            threading.Thread(target=follow, args=(container,), daemon=True).start()
        left = len(containers)
        while left:
            line = lines.get()
            if line is None:
                left -= 1
            else:
                yield line


def _containers(cluster: str, api: RunningPlane, replicas: Sequence[Manifest]) -> Iterator[PodContainer]:
    for item in replicas:
        namespace = remote_namespace(namespace_of(item))
        query = urlencode({"labelSelector": f"{REPLICA}={name_of(item)}"})
        for pod in items_at(api.request("GET", f"/api/v1/namespaces/{namespace}/pods?{query}"), "items"):
            for container in items_at(pod, "spec", "containers"):
                yield PodContainer(api, cluster, namespace, name_of(pod), text_at(container, "name"))
