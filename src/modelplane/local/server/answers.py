"""What the API answers: objects, lists, discovery documents, and failures as Status objects."""

from collections.abc import Iterable, Mapping

from modelplane.api.errors import ConflictError, InputError, ModelplaneError, NotFoundError, UnavailableError
from modelplane.local.server.resources import Resource

Json = dict[str, object]

_REASONS: tuple[tuple[type[ModelplaneError], int, str], ...] = (
    (NotFoundError, 404, "NotFound"),
    (ConflictError, 409, "Conflict"),
    (InputError, 422, "Invalid"),
    (UnavailableError, 503, "ServiceUnavailable"),
)


def failure(code: int, reason: str, message: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def failure_of(error: ModelplaneError) -> Json:
    for kind, code, reason in _REASONS:
        if isinstance(error, kind):
            return failure(code, reason, str(error))
    return failure(500, "InternalError", str(error))


def deleted(resource: Resource, name: str) -> Json:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details}


def listing(resource: Resource, items: Iterable[Mapping[str, object]], revision: int) -> Json:
    return {
        "apiVersion": resource.api_version,
        "kind": f"{resource.kind}List",
        "metadata": {"resourceVersion": str(revision)},
        "items": list(items),
    }


def group_list(resources: Iterable[Resource]) -> Json:
    versions = sorted({(each.group, each.version) for each in resources if each.group})
    return {"apiVersion": "v1", "kind": "APIGroupList", "groups": [_group(*pair) for pair in versions]}


def _group(group: str, version: str) -> Json:
    preferred = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [preferred], "preferredVersion": preferred}


def resource_list(api_version: str, resources: Iterable[Resource]) -> Json:
    entries = [entry for each in resources for entry in _entries(each)]
    return {"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": api_version, "resources": entries}


def _entries(resource: Resource) -> list[Json]:
    verbs = ["get", "list", *(["create", "update", "delete"] if resource.writable else [])]
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
        "shortNames": list(resource.short_names),
    }
    status: Json = {**entry, "name": f"{resource.plural}/status", "verbs": ["get", "update"], "shortNames": []}
    return [entry, status] if resource.status else [entry]
