"""Whether an observed object is ready, by its own signal."""

from collections.abc import Iterable, Mapping

from modelplane.api.conditions import ConditionType
from modelplane.api.objects import Manifest, value_at
from modelplane.api.timestamps import epoch_s
from modelplane.compose.contract import ReadyWhen

SERVING = frozenset({ConditionType.WORKLOAD_READY, ConditionType.ROUTE_READY})
"""What has to hold of a replica for it to answer requests."""


def is_ready(manifest: Manifest, when: ReadyWhen) -> bool:
    status = manifest.get("status")
    status = status if isinstance(status, Mapping) else {}
    match when:
        case ReadyWhen.CREATED:
            return bool(manifest)
        case ReadyWhen.AVAILABLE:
            return has_condition(manifest, when.value) and _has_pods(manifest, status)
        case ReadyWhen.COMPLETE | ReadyWhen.READY:
            return has_condition(manifest, when.value)
        case ReadyWhen.ROUTED:
            parents = list(_mappings(status.get("parents")))
            return bool(parents) and all(_routed(manifest, parent) for parent in parents)
        case ReadyWhen.ADDRESSED:
            return first_address(manifest) is not None


def _has_pods(manifest: Manifest, status: Mapping[str, object]) -> bool:
    """A workload that may have all its pods unavailable while it rolls is called Available with none at all."""
    spec = manifest.get("spec")
    wanted = spec.get("replicas", 1) if isinstance(spec, Mapping) else 1
    return wanted == 0 or any(status.get(count) for count in ("availableReplicas", "readyReplicas"))


def has_condition(manifest: Manifest, kind: str) -> bool:
    """Whether a condition is True, and was made for the newest generation where it says which it was made for."""
    status = manifest.get("status")
    return isinstance(status, Mapping) and _holds(manifest, status.get("conditions"), kind)


def _holds(manifest: Manifest, conditions: object, kind: str) -> bool:
    """Whether a condition holds for the object as it is now, not for an older generation of it."""
    for condition in _mappings(conditions):
        if condition.get("type") == kind:
            newest = value_at(manifest, "metadata", "generation")
            return condition.get("status") == "True" and condition.get("observedGeneration", newest) == newest
    return False


def serves(replica: Manifest) -> bool:
    """Whether a ModelReplica can answer requests, though something else about it may be amiss.

    Conditions of an older generation count: while an edit is looked at, the pods that run go on serving.
    """
    status = replica.get("status")
    conditions = _mappings(status.get("conditions")) if isinstance(status, Mapping) else ()
    held = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    return held >= SERVING


def stopped_at(replica: Manifest) -> float | None:
    """When a ModelReplica stopped to answer requests, by its own word; None where it serves or does not say."""
    status = replica.get("status")
    conditions = _mappings(status.get("conditions")) if isinstance(status, Mapping) else ()
    moments = [
        epoch_s(str(condition.get("lastTransitionTime")))
        for condition in conditions
        if condition.get("type") in SERVING and condition.get("status") != "True"
    ]
    return max((moment for moment in moments if moment is not None), default=None)


def first_address(manifest: Manifest) -> str | None:
    """The first address of a Gateway."""
    status = manifest.get("status")
    addresses = _mappings(status.get("addresses")) if isinstance(status, Mapping) else ()
    return next((str(address["value"]) for address in addresses if address.get("value")), None)


def programming_problem(gateway: Manifest) -> str | None:
    """What keeps a Gateway from serving what it was told, in the words of whoever programs it."""
    status = gateway.get("status")
    for condition in _mappings(status.get("conditions") if isinstance(status, Mapping) else None):
        if condition.get("type") in {"Accepted", "Programmed"} and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return None


def _routed(route: Manifest, parent: Mapping[str, object]) -> bool:
    return all(_holds(route, parent.get("conditions"), kind) for kind in ("Accepted", "ResolvedRefs"))


def route_problem(route: Manifest) -> str | None:
    """What a gateway says against a route, in its own words."""
    status = route.get("status")
    for parent in _mappings(status.get("parents") if isinstance(status, Mapping) else None):
        for condition in _mappings(parent.get("conditions")):
            if condition.get("status") == "False":
                return f"{condition.get('reason')}: {condition.get('message')}"
    return None


def _mappings(value: object) -> Iterable[Mapping[str, object]]:
    if not isinstance(value, list | tuple):
        return ()
    # Nearly all are dicts, and asking an abstract class costs ten times as much.
    return [item for item in value if type(item) is dict or isinstance(item, Mapping)]
