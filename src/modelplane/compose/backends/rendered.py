"""What a backend makes of a replica."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelplane.compose.contract import Remote


@dataclass(frozen=True, slots=True)
class Rendered:
    workloads: Mapping[str, Remote]
    """What runs the engines."""
    targets: Mapping[str, Remote]
    """What a route leads to, beside the workloads: Services, pools, the picker."""
    backend_refs: tuple[Mapping[str, object], ...]
    """How a route names them."""
    ports: tuple[int, ...]
    """Ports that the cluster's own software may reach."""
    support: Mapping[str, Remote] = field(default_factory=dict)
    """What the workloads need to be there first."""
    pods: Mapping[str, str] | None = None
    """Labels that all pods of the replica have, where they cannot carry ours."""
