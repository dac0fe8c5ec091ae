"""Discovery: the groups, versions and kinds."""

from collections.abc import Iterable
from typing import Final

from modelplane.api.objects import GROUP, Json
from modelplane.apiserver.resources import Resource, resources

AGGREGATED: Final = ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
_SUBRESOURCE_VERBS: Final = ("get", "patch", "update")

REVIEWS: Final = {
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    ("authorization.k8s.io", "v1", "subjectaccessreviews"): "SubjectAccessReview",
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): "SelfSubjectReview",
}
"""Review kinds, which are not stored, by group, version and plural."""


def versions(address: str) -> Json:
    server = {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [server]}


def group_versions() -> list[tuple[str, str]]:
    """Every group but the core one, with its only version, in the order that kubectl shows ambiguous names by."""
    pairs = {(each.group, each.version) for each in resources().values() if each.group}
    return sorted({*pairs, *(key[:2] for key in REVIEWS)}, key=lambda pair: (not _is_ours(pair[0]), pair))


def _is_ours(group: str) -> bool:
    return group.endswith(GROUP)


def group_list() -> Json:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*pair) for pair in group_versions()]}


def group(name: str) -> Json | None:
    found = [pair for pair in group_versions() if pair[0] == name]
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(*found[0])} if found else None


def _group(name: str, version: str) -> Json:
    preferred = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [preferred], "preferredVersion": preferred}


def resource_list(group_name: str, version: str) -> Json | None:
    own = _resources_of(group_name, version)
    entries = [entry for each in own for entry in _entries(each)]
    entries += [
        {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["create"]}
        for (of_group, of_version, plural), kind in REVIEWS.items()
        if (of_group, of_version) == (group_name, version)
    ]
    if not entries:
        return None
    spelled = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": spelled, "resources": entries}


def _resources_of(group_name: str, version: str) -> list[Resource]:
    return [each for each in resources().values() if (each.group, each.version) == (group_name, version)]


def _entries(resource: Resource) -> Iterable[Json]:
    names = resource.definition.names
    entry: Json = {
        "name": resource.plural,
        "singularName": names.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    yield entry | _listed("shortNames", names.short_names) | _listed("categories", names.categories)
    for name in resource.subresources:
        below: Json = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(_SUBRESOURCE_VERBS),
        }
        yield below | ({"group": "autoscaling", "version": "v1", "kind": "Scale"} if name == "scale" else {})


def _listed(name: str, values: tuple[str, ...]) -> Json:
    return {name: list(values)} if values else {}


def aggregated(*, core: bool) -> Json:
    """All kinds in one document: of the core group, or of all other groups."""
    pairs = [("", "v1")] if core else group_versions()
    items = [_aggregated_group(*pair) for pair in pairs]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": AGGREGATED[1], "metadata": {}, "items": items}


def _aggregated_group(name: str, version: str) -> Json:
    kinds = [_aggregated_kind(each) for each in _resources_of(name, version)]
    kinds += [
        {
            "resource": plural,
            "responseKind": {"group": "", "version": "", "kind": kind},
            "scope": "Cluster",
            "singularResource": kind.lower(),
            "verbs": ["create"],
        }
        for (of_group, of_version, plural), kind in REVIEWS.items()
        if (of_group, of_version) == (name, version)
    ]
    return {
        "metadata": {"name": name} if name else {},
        "versions": [{"version": version, "resources": kinds, "freshness": "Current"}],
    }


def _aggregated_kind(resource: Resource) -> Json:
    names = resource.definition.names
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    below = [
        {"subresource": name, "responseKind": scale if name == "scale" else own, "verbs": list(_SUBRESOURCE_VERBS)}
        for name in resource.subresources
    ]
    entry: Json = {
        "resource": resource.plural,
        "responseKind": own,
        "scope": resource.definition.scope.value,
        "singularResource": names.singular,
        "verbs": list(resource.verbs),
    }
    entry |= _listed("shortNames", names.short_names) | _listed("categories", names.categories)
    return entry | ({"subresources": below} if below else {})
