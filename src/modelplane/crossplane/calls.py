"""One call of the function in plain types: what Crossplane knows goes in, what it should make true comes out.

The composer of the kind decides; this adds what only Crossplane needs: carriers for objects of other clusters, provider
configurations, Usages, and the fields of a status that a composer left alone.

A composite is composed as a whole or not at all. Where it cannot be, `Refused` says why, and Crossplane leaves
everything as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

from modelplane.api.codec import decode, encode
from modelplane.api.conditions import Condition, ConditionStatus
from modelplane.api.errors import InputError
from modelplane.api.models import InferenceCluster
from modelplane.api.objects import Manifest, name_of, text_at
from modelplane.compose.contract import ComposeRequest, ComposeResult, Event, Requirement
from modelplane.compose.registry import COMPOSERS
from modelplane.crossplane import access, protection, tenants
from modelplane.crossplane.bounded_cache import BoundedCache
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.provider_objects import Carried, Composite, carry
from modelplane.placement.plugins import PlacementProfile
from modelplane.placement.profile import DEFAULT_PROFILE
from modelplane.placement.snapshot import Fleet

NET_S = 300.0
"""How soon a composite is looked at again when nothing else asks for it: the net under events that got lost. Crossplane
drops watch events of a composite past a rate, and this is what finds it afterwards."""
_SOONEST_S = 1.0
_OURS = (protection.PREFIX, access.PREFIX)
_REPLICAS = "replicas"
"""What the composer of a cluster calls the replicas on it, where it requires them."""


class CannotCompose(Exception):  # noqa: N818  what the user is told, not a defect
    """The composite cannot be composed; what is there stays."""


class Knowledge(Protocol):
    """What the host knows without asking Crossplane."""

    def fleet(self) -> Fleet | None:
        """The fleet, where one is kept."""

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        """None: not known here, ask Crossplane."""

    def turn(self, kind: str) -> AbstractContextManager[object]:
        """Held while a composite of the kind is decided."""

    def decided(self, kind: str, manifests: Sequence[Manifest]) -> None:
        """Told what a composite of the kind asked for."""


class NoKnowledge:
    """A host that keeps nothing: everything comes with the call."""

    def fleet(self) -> Fleet | None:
        return None

    def find(self, requirement: Requirement) -> tuple[Manifest, ...] | None:
        del requirement
        return None

    def turn(self, kind: str) -> AbstractContextManager[object]:
        del kind
        return nullcontext()

    def decided(self, kind: str, manifests: Sequence[Manifest]) -> None:
        """Nothing is kept."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    composite: Manifest
    composed: Mapping[str, Manifest] = field(default_factory=dict)
    required: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    """A key that is missing was not fetched; an empty tuple is a thing that is not there."""


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
    known: Knowledge | None = None,
    *,
    caches: FunctionCaches | None = None,
    helm: bool = False,
    profile: PlacementProfile = DEFAULT_PROFILE,
) -> FunctionResult:
    """What should be. `helm`: provider-helm is there to be configured; `profile` is what places replicas."""
    caches = caches or FunctionCaches()
    host = known if known is not None else NoKnowledge()
    composite = _identity(call.composite)
    entry = COMPOSERS.get(composite.kind)
    if entry is None:
        raise CannotCompose(f"nothing composes the kind {composite.kind}; known are {', '.join(sorted(COMPOSERS))}")
    try:
        resource = decode(entry.resource, call.composite)
    except InputError as error:
        raise CannotCompose(f"{composite.kind} {composite.name}: {error}") from error
    seen = {key: caches.read_back(item) for key, item in call.composed.items() if not key.startswith(_OURS)}
    observed = {key: carried.observed for key, carried in seen.items() if not key.startswith(tenants.PREFIX)}
    result, required, asked = _settled(
        lambda required: entry.compose(
            ComposeRequest(resource, observed, required, host.fleet(), now, profile, caches.decode_replica)
        ),
        call,
        host,
        caches.requirements,
    )
    extra: dict[str, Manifest] = {}
    desired = dict(result.desired)
    if isinstance(resource, InferenceCluster):
        replicas = required.get(_REPLICAS)
        extra = access.provider_configs(resource, helm=helm)
        extra |= protection.of_itself(composite, replicas, call.composed)
        desired |= tenants.tenant_namespaces(resource, replicas, seen)
    return FunctionResult(
        resources=_resources(composite, replace(result, desired=desired), seen, extra),
        status=_status(result, call.composite),
        ready=_is_ready(result),
        conditions=result.conditions,
        events=result.events,
        requirements=asked,
        ttl_s=_ttl(result),
    )


def _settled(
    compose: Callable[[Mapping[str, tuple[Manifest, ...]]], ComposeResult],
    call: FunctionCall,
    host: Knowledge,
    cache: BoundedCache[str, Mapping[str, Requirement]],
) -> tuple[ComposeResult, Mapping[str, tuple[Manifest, ...]], dict[str, Requirement]]:
    """Composes with what the host knows added to what came with the call, and says what Crossplane must fetch.

    What a composer requires follows from its resource alone, so one look tells what to add; and what it required last
    time mostly saves the look.
    """
    uid = text_at(call.composite, "metadata", "uid")
    wanted = cache.get(uid) or {}
    added = _added(wanted, host)
    required = {**call.required, **added}
    result = compose(required)
    if result.requirements != wanted:
        added = _added(result.requirements, host)
        required = {**call.required, **added}
        result = compose(required)
        cache.put(uid, result.requirements)
    asked = {
        name: requirement
        for name, requirement in result.requirements.items()
        if name not in added and requirement.cluster is None
    }
    return result, required, asked


def _added(wanted: Mapping[str, Requirement], host: Knowledge) -> dict[str, tuple[Manifest, ...]]:
    known = ((name, host.find(requirement)) for name, requirement in wanted.items())
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
    composite: Composite, result: ComposeResult, seen: Mapping[str, Carried], extra: Mapping[str, Manifest]
) -> dict[str, Composed]:
    desired = {**result.desired, **protection.held_back(result.desired, seen)}
    carried = {key: Composed(carry(composite, key, item, seen), item.ready) for key, item in desired.items()}
    kept_apart = protection.usages(composite, desired, seen, result.uses)
    return {**carried, **{key: Composed(item, ready=True) for key, item in {**extra, **kept_apart}.items()}}


def _status(result: ComposeResult, composite: Manifest) -> Mapping[str, object]:
    """The fields of the status. What is not returned is removed, so a composer that is silent keeps them."""
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
    return NET_S if result.requeue_after_s is None else min(max(result.requeue_after_s, _SOONEST_S), NET_S)
