"""The contract of hosts and composers: a Crossplane composition function in plain types.

A host calls `compose(request)` when the resource or something that it depends on may have changed, and applies the
desired state. It calls again after `requeue_after_s` at the latest. Equal requests give equal results: there is no
clock, no randomness and no IO in here.

The result is complete every time. What is left out of `desired` is deleted by the host, so a composer that lacks an
input passes on what is observed instead of leaving it out: desired state never shrinks because an input is missing,
malformed or late.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Generic, TypeVar

import msgspec

from modelplane.api.codec import decode
from modelplane.api.conditions import Condition
from modelplane.api.meta import ClusterName
from modelplane.api.models import ModelReplica
from modelplane.api.objects import Manifest
from modelplane.api.reasons import Reason
from modelplane.compose.images import RELEASE_IMAGES, ReleaseImages
from modelplane.compose.provider_models import ListModels
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.snapshot import Fleet

Resource = TypeVar("Resource", bound=msgspec.Struct)
FleetOf = Callable[[Iterable[Manifest], Iterable[Manifest], Iterable[Manifest]], Fleet]
_decode_replica = partial(decode, ModelReplica)


class ReadyWhen(StrEnum):
    """How an object shows that it is ready. Hosts evaluate it on the observed object, never on the desired one."""

    CREATED = "Created"
    AVAILABLE = "Available"
    """Its condition Available is True and it has pods that serve: Deployments and LeaderWorkerSets."""
    COUNTED = "Counted"
    """Its status counts as many available replicas as it wants: PodCliqueSets, which have no condition for it."""
    COMPLETE = "Complete"
    """Its condition Complete is True: Jobs."""
    ROUTED = "Routed"
    """Every parent accepted it and resolved its references: HTTPRoutes."""
    ADDRESSED = "Addressed"
    """Its status has an address: Gateways."""
    READY = "Ready"
    """Its condition Ready is True: our own kinds."""


@dataclass(frozen=True, slots=True)
class Local:
    """An object beside the resource, on the control plane."""

    manifest: Manifest
    ready_when: ReadyWhen = ReadyWhen.CREATED


@dataclass(frozen=True, slots=True)
class CopiedFrom:
    """An object on the control plane whose fields the host copies. Composers never see or hold the values."""

    api_version: str
    kind: str
    name: str
    namespace: str
    fields: tuple[str, ...] = ("data",)
    version: str = ""
    """The resourceVersion that was read: another one means that there is something to copy."""


@dataclass(frozen=True, slots=True)
class Remote:
    """An object on another cluster. The host applies it there and observes it."""

    cluster: ClusterName
    manifest: Manifest
    ready_when: ReadyWhen = ReadyWhen.CREATED
    shared: bool = False
    """Several resources desire the same object, such as a tenant's namespace: it outlives each of them."""
    copied_from: CopiedFrom | None = None
    """Where the fields that the manifest lacks come from. While that object is missing, the copy stays as it is."""


@dataclass(frozen=True, slots=True)
class Helm:
    """A chart released on another cluster."""

    cluster: ClusterName
    chart: str
    repository: str
    version: str
    namespace: str
    values: Mapping[str, object] = field(default_factory=dict)
    release: str = ""
    """The name that Helm knows it by. Empty: the host's choice."""


Target = Local | Remote | Helm


@dataclass(frozen=True, slots=True)
class Observed:
    """A composed object as observed, and whether it is ready by its ReadyWhen."""

    target: Target
    """The last desired target with the observed manifest. A composer may return it unchanged to keep the object."""
    ready: bool
    outlives: tuple[str, ...] = ()
    """As it was last desired."""
    refused: str = ""
    """Why it could not be applied the last time, in the words of its cluster or of Helm; empty where it could."""

    @property
    def manifest(self) -> Manifest:
        return {} if isinstance(self.target, Helm) else self.target.manifest


@dataclass(frozen=True, slots=True)
class Requirement:
    """Another object that the composer reads: one by name, or all of a kind that have the labels."""

    api_version: str
    kind: str
    name: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cluster: ClusterName | None = None
    """The cluster of the object; None: the control plane. A host that cannot read the cluster leaves it unfetched."""


@dataclass(frozen=True, slots=True)
class ComposeRequest(Generic[Resource]):
    """All inputs of a composer."""

    resource: Resource
    observed: Mapping[str, Observed] = field(default_factory=dict)
    """By the key that the composer gave the object in `desired`."""
    required: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    """The required objects. A missing key is not fetched yet; an empty tuple means that no object matches."""
    fleet: Fleet | None = None
    """The fleet, where the host has one. Otherwise a composer that places replicas requires its parts."""
    now: float = 0.0
    """The time of the call in seconds since the epoch. 0: unknown, and no grace period expires."""
    profile: PlacementProfile = DEFAULT_PROFILE
    """The placement plugins."""
    decode_replica: Callable[[Manifest], ModelReplica] = _decode_replica
    """How an observed ModelReplica is read. A host that shows an unchanged object again may cache it by identity."""
    resolve: Callable[[str], tuple[str, ...] | None] | None = None
    """The addresses of a host name: None while it is looked up, none when it does not resolve. Hosts without a resolver
    check no addresses."""
    images: ReleaseImages = RELEASE_IMAGES
    """Images of our own programs, for clusters that name none."""
    charts: bool = True
    """Whether the host can release charts on clusters."""
    read_fleet: FleetOf | None = None
    """How listed clusters, replicas and caches become a fleet, where the host caches that. None: without a cache."""
    embedded: bool = False
    """Whether the host runs Envoy and the fleet routers itself, and issues the certificates of gateways."""
    list_models: ListModels | None = None
    """Fetches lists of providers' models. Hosts without it leave `status.models` as it is."""

    def fetched(self, name: str) -> tuple[Manifest, ...] | None:
        """None until it is fetched, which is not the same as absent."""
        return self.required.get(name)


@dataclass(frozen=True, slots=True)
class Desired:
    """A desired object, and whether the observed one is ready."""

    target: Target
    ready: bool = False
    outlives: tuple[str, ...] = ()
    """Keys of objects that must be gone before this one is deleted: a route before its backends."""


@dataclass(frozen=True, slots=True)
class Use:
    """Another object on the control plane that must outlive this resource: Crossplane's Usage."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    reason: str = ""


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """A transition in this pass. Composers emit each transition once."""

    type: EventType
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ComposeResult:
    """The desired state and the status."""

    desired: Mapping[str, Desired] = field(default_factory=dict)
    status: msgspec.Struct | None = None
    """The kind's status without conditions. None leaves the fields that were written before."""
    conditions: tuple[Condition, ...] = ()
    """At most one of each type. The host adds READY, generation and time."""
    ready: Condition | None = None
    """The READY condition. None derives it: True when every desired object is ready."""
    events: tuple[Event, ...] = ()
    requirements: Mapping[str, Requirement] = field(default_factory=dict)
    """They follow from the resource, from what is observed and from what was fetched. A host fetches and calls again
    until they no longer change."""
    requeue_after_s: float | None = None
    uses: tuple[Use, ...] = ()


Composer = Callable[[ComposeRequest[Resource]], ComposeResult]


def keep_observed(request: ComposeRequest[Resource]) -> dict[str, Desired]:
    """The observed objects as desired state: for a composer that lacks an input."""
    return {key: keep(observed) for key, observed in request.observed.items()}


def keep(observed: Observed) -> Desired:
    """An observed object as it was last desired."""
    return Desired(observed.target, observed.ready, observed.outlives)


def keep_order(
    desired: Mapping[str, Desired], kept: Mapping[str, Desired], observed: Mapping[str, Observed]
) -> dict[str, Desired]:
    """Both, where what is `kept` without a decision keeps its place in the order of deletion, too."""
    made = {
        key: replace(item, outlives=(*item.outlives, *_left_out(key, item, kept, observed)))
        for key, item in desired.items()
    }
    return {**kept, **made}


def _left_out(
    key: str, item: Desired, kept: Mapping[str, Desired], observed: Mapping[str, Observed]
) -> tuple[str, ...]:
    before = observed[key].outlives if key in observed else ()
    return tuple(user for user in before if user in kept and user not in item.outlives)
