"""Which workload clusters the lab has and with what hardware, read from InferenceClusters and InferenceClasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from lab.manifests import read_folder
from modelplane.api.codec import decode
from modelplane.api.models import InferenceClass, InferenceCluster
from modelplane.sim.cluster.pools import NodePoolSpec, pools_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.client import Manifest

T = TypeVar("T", bound=msgspec.Struct)

_FIRST_POD_NETWORK = 245
_FIRST_PORT = 22_000
_PORTS_EACH = 100


class FleetError(Exception):
    """The folder does not describe clusters that the lab can make."""


@dataclass(frozen=True, slots=True)
class Site:
    """One workload cluster to be."""

    name: str
    pools: tuple[NodePoolSpec, ...]
    base_port: int
    pod_range: str
    scheduler: str = "None"
    """What the cluster's spec says places its pods."""

    @property
    def gateway(self) -> str:
        """An address of its own for the cluster's gateway; KWOK counts pods from the other end."""
        return self.pod_range.replace("0.0/16", "255.1")


def read_fleet(folder: Path) -> tuple[Site, ...]:
    """A site for each InferenceCluster of the folder."""
    manifests = read_folder(folder)
    classes = {str(found.metadata.name): found for found in _of_kind(manifests, InferenceClass)}
    clusters = _of_kind(manifests, InferenceCluster)
    if not clusters:
        raise FleetError(f"{folder} holds no InferenceCluster")
    return tuple(
        Site(
            name=str(cluster.metadata.name),
            pools=pools_of(cluster, classes),
            base_port=_FIRST_PORT + number * _PORTS_EACH,
            pod_range=f"10.{_FIRST_POD_NETWORK + number}.0.0/16",
            scheduler=cluster.spec.scheduling.type_,
        )
        for number, cluster in enumerate(clusters)
    )


def _of_kind(manifests: Sequence[Manifest], kind: type[T]) -> list[T]:
    return [decode(kind, item) for item in manifests if item["kind"] == kind.__name__]
