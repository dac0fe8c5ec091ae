"""`modelplane drain`: moves the replicas of a cluster or a pool away, and back in when it is over."""

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modelplane.api.errors import ConflictError, InputError
from modelplane.api.objects import items_at, text_at, value_at
from modelplane.cli._formats import duration_s
from modelplane.cli.running import RunningPlane, add_data_argument
from modelplane.k8s.admission.decode import escape

_EPILOG = """\
examples:
  modelplane drain cluster east --wait              move every replica away; each leaves when its successor serves
  modelplane drain cluster east --deadline 30m      after 30 minutes replicas leave without a successor
  modelplane drain cluster east --at-a-time 1       one replica after the other (4 at a time)
  modelplane drain pool east/h200 --wait            the replicas of one node pool
  modelplane drain cluster east --abort             replicas that have not left stay, and new ones may come
  modelplane drain cluster east --kubeconfig ~/.kube/config

It sets spec.drain of the InferenceCluster or of its pool, so kubectl works as well:
  kubectl patch inferencecluster east --type merge -p '{"spec": {"drain": {}}}'

A drained cluster takes no new replicas until the drain is aborted. docs/operations/maintenance.md has the whole story.

Exit codes: 0 done, 1 refused, 3 the wait ended before the drain did.
"""
_PLURAL = "inferenceclusters"
_POLL_S = 1.0
_ATTEMPTS = 5
"""The status of a cluster is written often, and each write is a new version."""
_NOT_DRAINED = 3


@dataclass(frozen=True, slots=True)
class DrainTarget:
    cluster: str
    pool: str = ""

    def __str__(self) -> str:
        return f"pool {self.cluster}/{self.pool}" if self.pool else f"cluster {self.cluster}"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Moves the replicas of a cluster or a node pool to others. Each leaves when its successor serves."
    )
    parser.epilog = _EPILOG
    parser.add_argument("kind", choices=("cluster", "pool"))
    parser.add_argument("name", help="name of the cluster, or CLUSTER/POOL")
    parser.add_argument(
        "--deadline", type=duration_s, metavar="TIME", help="when replicas leave without a successor: 30m"
    )
    parser.add_argument("--at-a-time", type=_count, metavar="N", help="most replicas that move at a time (4)")
    parser.add_argument("--abort", action="store_true", help="end the drain; replicas that have not left stay")
    parser.add_argument("--wait", action="store_true", help="show the progress until no replica is left")
    parser.add_argument("--timeout", type=duration_s, metavar="TIME", help="wait, so long at most (no limit)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the control plane of a kubeconfig")
    add_data_argument(where)


def run(arguments: argparse.Namespace) -> int:
    target = target_of(arguments.kind, arguments.name)
    plane = _plane(arguments)
    if arguments.abort:
        if not is_set(plane.get(_PLURAL, target.cluster), target):
            print(f"{target} is not being drained.")
            return 0
        _set_drain(plane, target, None)
        print(f"the drain of {target} is ended; replicas that have not left stay.")
        return 0
    drain = {"parallelism": arguments.at_a_time, "deadlineSeconds": arguments.deadline}
    written = _set_drain(plane, target, {name: value for name, value in drain.items() if value is not None})
    print(f"{target} is being drained; `modelplane drain {arguments.kind} {arguments.name} --abort` ends it.")
    if not arguments.wait and arguments.timeout is None:
        return 0
    return wait(lambda: plane.get(_PLURAL, target.cluster), generation_of(written), arguments.timeout)


def is_set(cluster: Mapping[str, object], target: DrainTarget) -> bool:
    """Whether the cluster or its pool is to be drained. A pool that is not there is refused where it is patched."""
    if not target.pool:
        return value_at(cluster, "spec", "drain") is not None
    pools = [pool for pool in items_at(cluster, "spec", "nodePools") if pool.get("name") == target.pool]
    return not pools or pools[0].get("drain") is not None


def target_of(kind: str, name: str) -> DrainTarget:
    cluster, slash, pool = name.partition("/")
    if kind == "cluster" and not slash:
        return DrainTarget(name)
    if kind == "pool" and cluster and pool and "/" not in pool:
        return DrainTarget(cluster, pool)
    wanted = "a cluster is named by its name" if kind == "cluster" else "a pool is named as CLUSTER/POOL"
    raise InputError(f"{name!r}: {wanted}")


def patch_of(
    cluster: Mapping[str, object], target: DrainTarget, drain: Mapping[str, object] | None
) -> dict[str, object]:
    """The merge patch that sets or ends a drain."""
    if not target.pool:
        # A merge patch merges: what an earlier drain said must not stay.
        return {"spec": {"drain": None if drain is None else {"parallelism": None, "deadlineSeconds": None, **drain}}}
    # It replaces the list of pools, so the API refuses it where somebody was faster.
    version = {"metadata": {"resourceVersion": text_at(cluster, "metadata", "resourceVersion")}}
    pools = list(items_at(cluster, "spec", "nodePools"))
    if not any(pool.get("name") == target.pool for pool in pools):
        known = ", ".join(str(pool.get("name")) for pool in pools)
        raise InputError(f"cluster {target.cluster} has no pool {target.pool}; it has {known or 'none'}")
    changed = [_drained(pool, drain) if pool.get("name") == target.pool else dict(pool) for pool in pools]
    return {**version, "spec": {"nodePools": changed}}


def _drained(pool: Mapping[str, object], drain: Mapping[str, object] | None) -> dict[str, object]:
    rest = {name: value for name, value in pool.items() if name != "drain"}
    return rest if drain is None else {**rest, "drain": dict(drain)}


def wait(read: Callable[[], Mapping[str, object]], generation: int, timeout_s: float | None) -> int:
    """Prints the progress when it changes, until the cluster says that it is drained."""
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    printed = ""
    while True:
        is_drained, message = progress(read(), generation)
        if message != printed:
            print(escape(message), flush=True)
            printed = message
        if is_drained:
            return 0
        if ends is not None and time.monotonic() >= ends:
            return _NOT_DRAINED
        time.sleep(_POLL_S)


def progress(cluster: Mapping[str, object], generation: int) -> tuple[bool, str]:
    """Whether it is drained, and what it says of that. A condition of an older generation says nothing.

    Crossplane writes no generation into conditions of functions. It writes them together with Synced, which has one.
    """
    found = {condition.get("type"): condition for condition in items_at(cluster, "status", "conditions")}
    drained = found.get("Drained", {})
    observed = drained.get("observedGeneration") or found.get("Synced", {}).get("observedGeneration")
    if not drained or not isinstance(observed, int) or observed < generation:
        return False, "waiting for the control plane"
    return drained.get("status") == "True", f"{drained.get('reason')}: {drained.get('message')}"


def generation_of(cluster: Mapping[str, object]) -> int:
    found = value_at(cluster, "metadata", "generation")
    return found if isinstance(found, int) else 0


def _set_drain(plane: RunningPlane, target: DrainTarget, drain: Mapping[str, object] | None) -> dict[str, object]:
    for _ in range(_ATTEMPTS - 1):
        with suppress(ConflictError):
            return _try_drain(plane, target, drain)
    return _try_drain(plane, target, drain)


def _try_drain(plane: RunningPlane, target: DrainTarget, drain: Mapping[str, object] | None) -> dict[str, object]:
    return plane.patch(_PLURAL, target.cluster, patch_of(plane.get(_PLURAL, target.cluster), target, drain))


def _plane(arguments: argparse.Namespace) -> RunningPlane:
    if arguments.kubeconfig:
        from modelplane.cli.kubeconfig import read_kubeconfig

        return read_kubeconfig(arguments.kubeconfig)
    return RunningPlane.of(arguments.data)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of replicas")
    return int(text)
