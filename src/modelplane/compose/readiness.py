"""Whether an observed object is ready, by its ReadyWhen."""

from collections.abc import Collection, Iterable, Mapping

from modelplane.api.conditions import ConditionType
from modelplane.api.objects import Manifest, value_at
from modelplane.api.timestamps import epoch_s
from modelplane.compose.contract import ReadyWhen

SERVING = frozenset({ConditionType.WORKLOAD_READY, ConditionType.ROUTE_READY})
"""The conditions of a ModelReplica that serves."""


def is_ready(manifest: Manifest, when: ReadyWhen) -> bool:
    status = manifest.get("status")
    status = status if isinstance(status, Mapping) else {}
    if when is ReadyWhen.CREATED:
        return bool(manifest)
    if when is ReadyWhen.ADDRESSED:
        return first_address(manifest) is not None
    if when is ReadyWhen.ROUTED:
        parents = list(_mappings(status.get("parents")))
        return bool(parents) and all(_routed(manifest, parent) for parent in parents)
    if when is ReadyWhen.COUNTED:
        return _is_counted(manifest, status)
    # The others are named by their condition.
    held = has_condition(manifest, when.value)
    return held and _has_pods(manifest, status) if when is ReadyWhen.AVAILABLE else held


def _has_pods(manifest: Manifest, status: Mapping[str, object]) -> bool:
    """A workload with maxUnavailable of 100 % is Available without any pod."""
    return value_at(manifest, "spec", "replicas") == 0 or any(
        status.get(count) for count in ("availableReplicas", "readyReplicas")
    )


def _is_counted(manifest: Manifest, status: Mapping[str, object]) -> bool:
    """By a status of the newest generation: an older one counts replicas of an older template."""
    wanted, available = value_at(manifest, "spec", "replicas"), status.get("availableReplicas")
    return available is not None and available == wanted and _is_newest(manifest, status)


def has_condition(manifest: Manifest, kind: str) -> bool:
    """Whether a condition is True for the newest generation, where it has an observedGeneration."""
    status = manifest.get("status")
    return isinstance(status, Mapping) and _holds(manifest, status.get("conditions"), kind)


def _holds(manifest: Manifest, conditions: object, kind: str) -> bool:
    for condition in _mappings(conditions):
        if condition.get("type") == kind:
            return condition.get("status") == "True" and _is_newest(manifest, condition)
    return False


def _is_newest(manifest: Manifest, stated: Mapping[str, object]) -> bool:
    """What does not say of which generation it is, is of the newest."""
    newest = value_at(manifest, "metadata", "generation")
    return stated.get("observedGeneration", newest) == newest


def serves(replica: Manifest) -> bool:
    """Whether a ModelReplica serves, whatever its other conditions are.

    Conditions of an older generation count: running pods serve while a change is reconciled.
    """
    held = {condition["type"] for condition in _conditions(replica) if condition.get("status") == "True"}
    return held >= SERVING


def is_denied(manifest: Manifest, kinds: Collection[str]) -> bool:
    """Whether a condition of one of these types is False. One that is Unknown or was lost denies nothing."""
    return any(item["type"] in kinds and item.get("status") == "False" for item in _conditions(manifest))


def stopped_at(replica: Manifest) -> float | None:
    """When a ModelReplica stopped serving, by its conditions; None where it serves or the time is unknown."""
    times = [
        epoch_s(str(condition.get("lastTransitionTime")))
        for condition in _conditions(replica)
        if condition["type"] in SERVING and condition.get("status") != "True"
    ]
    return max((time for time in times if time is not None), default=None)


def serving_since(replica: Manifest) -> float | None:
    """Since when a ModelReplica serves, by its conditions; None where it does not or the time is unknown."""
    status = replica.get("status")
    conditions = _mappings(status.get("conditions")) if isinstance(status, Mapping) else ()
    held = {
        condition.get("type"): epoch_s(str(condition.get("lastTransitionTime")))
        for condition in conditions
        if condition.get("type") in SERVING and condition.get("status") == "True"
    }
    times = [time for time in held.values() if time is not None]
    return max(times) if held.keys() >= SERVING and times else None


def first_address(manifest: Manifest) -> str | None:
    """The first address of a Gateway."""
    status = manifest.get("status")
    addresses = _mappings(status.get("addresses")) if isinstance(status, Mapping) else ()
    return next((str(address["value"]) for address in addresses if address.get("value")), None)


def programming_problem(gateway: Manifest) -> str | None:
    """Reason and message of the condition by which a Gateway is not accepted or not programmed."""
    for condition in _conditions(gateway):
        if condition["type"] in {"Accepted", "Programmed"} and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return None


def _routed(route: Manifest, parent: Mapping[str, object]) -> bool:
    return all(_holds(route, parent.get("conditions"), kind) for kind in ("Accepted", "ResolvedRefs"))


def route_problem(route: Manifest) -> str | None:
    """Reason and message of the first condition of a route that is False."""
    status = route.get("status")
    for parent in _mappings(status.get("parents") if isinstance(status, Mapping) else None):
        for condition in _mappings(parent.get("conditions")):
            if condition.get("status") == "False":
                return f"{condition.get('reason')}: {condition.get('message')}"
    return None


def _conditions(manifest: Manifest) -> Iterable[Mapping[str, object]]:
    """Those that have a type. Others are garbled."""
    status = manifest.get("status")
    found = _mappings(status.get("conditions")) if isinstance(status, Mapping) else ()
    return [condition for condition in found if type(condition.get("type")) is str]


def _mappings(value: object) -> Iterable[Mapping[str, object]]:
    if not isinstance(value, list | tuple):
        return ()
    # Nearly all are dicts, and asking an abstract class costs ten times as much.
    return [item for item in value if type(item) is dict or isinstance(item, Mapping)]
