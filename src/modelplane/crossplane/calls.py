"""One RunFunction call in plain types: observed state in, desired state out.

The composer of the kind decides. This adds what only Crossplane needs: provider objects for other clusters, provider
configurations, Usages, and the status fields that the composer did not return.

A composite is composed as a whole or not at all. `CannotCompose` says why it is not, and Crossplane changes nothing.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from modelplane.api.codec import decode, encode
from modelplane.api.conditions import Condition, ConditionStatus
from modelplane.api.errors import InputError
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, name_of, text_at
from modelplane.compose.contract import ComposeRequest, ComposeResult, Desired, Event, Requirement, Use
from modelplane.compose.registry import COMPOSERS
from modelplane.crossplane import access, copies, protection, tenants
from modelplane.crossplane.bounded_cache import BoundedCache
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.provider_objects import ComposedObject, Composite, to_provider_object
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.snapshot import Fleet

RESYNC_S = 300.0
"""The longest TTL of a response. Crossplane drops watch events of a composite past a rate; the resync finds what it
missed."""
_MORE_ROUNDS = 2
_SHORTEST_TTL_S = 1.0
_OURS = (protection.PREFIX, access.PREFIX, copies.PREFIX)
_REPLICAS = "replicas"
"""The key under which the composer of a cluster requires its replicas."""


_USERS = "users-"
"""How the keys of what may use a composite whose deletion Crossplane refused begin."""


class CannotCompose(Exception):  # noqa: N818  what the user is told, not a defect
    """The composite cannot be composed; Crossplane changes nothing."""


class FleetCache(Protocol):
    """What a host knows of the fleet, so that Crossplane need not send it with the call."""

    def fleet(self) -> Fleet | None:
        """The fleet, where one is kept."""

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        """None: not known here, Crossplane must fetch it."""

    def decision_lock(self, kind: str) -> AbstractContextManager[object]:
        """Held while a composite of the kind is decided."""

    def assume(self, kind: str, manifests: Sequence[Manifest]) -> None:
        """Count what a composite of the kind desires from now on."""


class NoFleetCache:
    """A host that watches nothing: Crossplane sends everything with the call."""

    def fleet(self) -> Fleet | None:
        return None

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        del requirement
        return None

    def decision_lock(self, kind: str) -> AbstractContextManager[object]:
        del kind
        return nullcontext()

    def assume(self, kind: str, manifests: Sequence[Manifest]) -> None:
        """Nothing is assumed."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    composite: Manifest
    composed: Mapping[str, Manifest] = field(default_factory=dict)
    required: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    """A missing key was not fetched; an empty tuple means that no object matches."""


@dataclass(frozen=True, slots=True)
class Composed:
    manifest: Manifest
    ready: bool


@dataclass(frozen=True, slots=True)
class FunctionResult:
    resources: Mapping[str, Composed]
    status: Mapping[str, object]
    ready: bool
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...]
    requirements: Mapping[str, Requirement]
    """What Crossplane is to fetch."""
    ttl_s: float


def answer(
    call: FunctionCall,
    now: float,
    cache: FleetCache | None = None,
    *,
    caches: FunctionCaches | None = None,
    helm: bool = False,
    profile: PlacementProfile = DEFAULT_PROFILE,
) -> FunctionResult:
    """The desired state. `helm`: provider-helm is installed and gets its configuration too."""
    caches = caches or FunctionCaches()
    fleet_cache = cache if cache is not None else NoFleetCache()
    composite = _identity(call.composite)
    entry = COMPOSERS.get(composite.kind)
    if entry is None:
        raise CannotCompose(f"no composer for kind {composite.kind}; kinds: {', '.join(sorted(COMPOSERS))}")
    try:
        resource = decode(entry.resource, call.composite)
    except InputError as error:
        raise CannotCompose(f"{composite.kind} {composite.name}: {error}") from error
    seen = {key: caches.read_back(item) for key, item in call.composed.items() if not key.startswith(_OURS)}
    observed = {key: item.observed for key, item in seen.items() if not key.startswith(tenants.PREFIX)}
    observed = copies.with_filled(observed, call.composed)
    result, required, to_fetch = _compose(
        lambda required: entry.compose(
            ComposeRequest(
                resource,
                observed,
                required,
                fleet_cache.fleet(),
                now,
                profile,
                caches.decode_replica,
                caches.resolve,
                caches.images,
                charts=helm,
                read_fleet=caches.read_fleet,
                list_models=caches.list_models,
            )
        ),
        call,
        fleet_cache,
        caches.requirements,
    )
    extra: dict[str, Manifest] = {}
    desired = dict(result.desired)
    conditions = result.conditions
    if isinstance(resource, InferenceCluster):
        replicas = required.get(_REPLICAS)
        extra = access.provider_configs(resource, helm=helm or access.HELM in call.composed)
        extra |= protection.of_itself(composite, replicas, call.composed, cordoned=resource.spec.cordoned)
        desired |= tenants.tenant_namespaces(resource, replicas, seen)
    users = _users(call, fleet_cache, to_fetch)
    conditions += protection.blocked_deletion(call.composite, users, call.composed)
    return FunctionResult(
        resources=_resources(composite, (desired, result.uses), seen, extra, call.composed),
        status=_status(result, call.composite),
        ready=_is_ready(result),
        conditions=conditions,
        events=result.events,
        requirements=to_fetch,
        ttl_s=_ttl(result),
    )


def _compose(
    compose: Callable[[Mapping[str, tuple[Manifest, ...]]], ComposeResult],
    call: FunctionCall,
    fleet_cache: FleetCache,
    known: BoundedCache[str, Mapping[str, Requirement]],
) -> tuple[ComposeResult, Mapping[str, tuple[Manifest, ...]], dict[str, Requirement]]:
    """Composes with what the cache has beside what came with the call, and returns what Crossplane must fetch.

    Those of the last call (`known`) mostly save the second round. What Crossplane fetches may lead to further ones: it
    calls again until they no longer change.
    """
    uid = text_at(call.composite, "metadata", "uid")
    wanted = known.get(uid) or {}
    found = _found(wanted, fleet_cache)
    required = {**call.required, **found}
    result = compose(required)
    for _ in range(_MORE_ROUNDS):
        if result.requirements == wanted:
            break
        wanted = result.requirements
        known.put(uid, wanted)
        found = _found(wanted, fleet_cache)
        required = {**call.required, **found}
        result = compose(required)
    to_fetch = {
        name: requirement
        for name, requirement in result.requirements.items()
        if name not in found and requirement.cluster is None
    }
    return result, required, to_fetch


def _users(
    call: FunctionCall, fleet_cache: FleetCache, to_fetch: dict[str, Requirement]
) -> dict[str, tuple[Manifest, ...] | None]:
    """What may use a composite whose deletion was refused, by kind; None until that is fetched."""
    users: dict[str, tuple[Manifest, ...] | None] = {}
    for kind, wanted in protection.users_requirements(call.composite).items():
        found, key = fleet_cache.find(wanted), f"{_USERS}{kind}"
        if found is None:
            to_fetch[key] = wanted
        users[kind] = call.required.get(key) if found is None else found
    return users


def _found(wanted: Mapping[str, Requirement], fleet_cache: FleetCache) -> dict[str, tuple[Manifest, ...]]:
    known = ((name, fleet_cache.find(requirement)) for name, requirement in wanted.items())
    return {name: found for name, found in known if found is not None}


def _identity(composite: Manifest) -> Composite:
    found = Composite(
        text_at(composite, "apiVersion"),
        text_at(composite, "kind"),
        name_of(composite),
        text_at(composite, "metadata", "namespace"),
        text_at(composite, "metadata", "uid"),
    )
    if not found.kind or not found.name:
        raise CannotCompose("the composite has no kind or no name")
    return found


def _resources(
    composite: Composite,
    decided: tuple[Mapping[str, Desired], tuple[Use, ...]],
    seen: Mapping[str, ComposedObject],
    extra: Mapping[str, Manifest],
    existing: Container[str],
) -> dict[str, Composed]:
    wanted, uses = decided
    desired = {**wanted, **protection.held_back(wanted, seen)}
    objects = {key: to_provider_object(composite, key, item, seen) for key, item in desired.items()}
    there = protection.ComposedObjects({**objects, **extra}, seen, existing)
    usages = protection.usages(composite, desired, there, uses)
    others = {**extra, **usages, **copies.copy_objects(composite, desired)}
    composed = {key: Composed(item, desired[key].ready) for key, item in objects.items()}
    return composed | {key: Composed(item, ready=True) for key, item in others.items()}


def _status(result: ComposeResult, composite: Manifest) -> Mapping[str, object]:
    """Crossplane removes status fields that are not returned, so without a new status the old fields are returned."""
    if result.status is not None:
        return encode(result.status)
    before = composite.get("status")
    fields = before.items() if isinstance(before, Mapping) else ()
    return {name: value for name, value in fields if name not in {"conditions", "crossplane"}}


def _is_ready(result: ComposeResult) -> bool:
    if result.ready is not None:
        return result.ready.status is ConditionStatus.TRUE
    return all(item.ready for item in result.desired.values())


def _ttl(result: ComposeResult) -> float:
    return RESYNC_S if result.requeue_after_s is None else min(max(result.requeue_after_s, _SHORTEST_TTL_S), RESYNC_S)
