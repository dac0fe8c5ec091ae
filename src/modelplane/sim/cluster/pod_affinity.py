"""Required affinity and anti-affinity between pods, as kube-scheduler filters by them.

A term compares the pods of the same namespace that its selector matches, by the value of a node label. The first pod of
a group may go anywhere: an affinity that matches the pod itself holds while no other pod matches. Not modelled:
namespace selectors, and the anti-affinity of pods that are there against the one that comes.
"""

from collections.abc import Iterable, Mapping

from modelplane.api.objects import Manifest, items_at, labels_of, namespace_of

NO_AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Placed = tuple[Manifest, Manifest]
"""A pod and its node."""


def affinity_refusal(pod: Manifest, node: Manifest, placed: Iterable[Placed]) -> str | None:
    """Why the pods that are there keep the pod from the node, or None."""
    wanted, avoided = _terms(pod, "podAffinity"), _terms(pod, "podAntiAffinity")
    if not wanted and not avoided:
        return None
    near = [(other, labels_of(at)) for other, at in placed if namespace_of(other) == namespace_of(pod)]
    if not all(_holds(term, pod, labels_of(node), near) for term in wanted):
        return NO_AFFINITY
    if any(_is_near(term, labels_of(node), near) for term in avoided):
        return ANTI_AFFINITY
    return None


_Near = list[tuple[Manifest, dict[str, str]]]


def _terms(pod: Manifest, kind: str) -> list[Mapping[str, object]]:
    return list(items_at(pod, "spec", "affinity", kind, _REQUIRED))


def _holds(term: Mapping[str, object], pod: Manifest, node: dict[str, str], near: _Near) -> bool:
    if str(term.get("topologyKey")) not in node:
        return False
    is_first = _matches(term, pod) and not any(_matches(term, other) for other, _ in near)
    return is_first or _is_near(term, node, near)


def _is_near(term: Mapping[str, object], node: dict[str, str], near: _Near) -> bool:
    key = str(term.get("topologyKey"))
    return key in node and any(labels.get(key) == node[key] and _matches(term, other) for other, labels in near)


def _matches(term: Mapping[str, object], pod: Manifest) -> bool:
    labels = labels_of(pod)
    return all(_meets(each, labels) for each in items_at(term, "labelSelector", "matchExpressions"))


def _meets(requirement: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    key, values = str(requirement.get("key")), requirement.get("values")
    listed = values if isinstance(values, list | tuple) else ()
    match requirement.get("operator"):
        case "In":
            return labels.get(key) in listed
        case "NotIn":
            return labels.get(key) not in listed
        case "Exists":
            return key in labels
        case _:
            return key not in labels
