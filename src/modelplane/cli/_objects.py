"""Objects of a control plane, embedded or not: found by the API's own discovery, read, applied and deleted."""

import argparse
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple
from urllib.parse import quote

from modelplane.api.definitions import definitions
from modelplane.api.errors import ConflictError, InputError, ModelplaneError, NotFoundError
from modelplane.api.objects import API_VERSION, GROUP, Manifest, as_list, items_at, mapping_at, text_at
from modelplane.cli._kinds import CORE_KINDS
from modelplane.cli._near import near_object, suggesting
from modelplane.cli.running import RunningPlane

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
_APPLY: Final = "application/apply-patch+yaml"
MANAGER: Final = "modelplane-cli"
_OWN: Final = frozenset({MANAGER, "modelplane-rollout", "kubectl-client-side-apply", "before-first-apply"})
"""`kubectl apply --server-side` takes over from the third, too: it is the same person's `kubectl apply`.

The last stands for fields that no manager has, such as those that `modelplane up -f` wrote.
"""
_MANAGED_BY: Final = re.compile(r'conflicts? with "([^"]*)"')
_WRITTEN: Final = frozenset({"resourceVersion", "generation", "managedFields"})


class ApiResource(NamedTuple):
    """A kind as the API serves it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    def path(self, namespace: str, name: str = "") -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")

    def shown(self, name: str) -> str:
        """`modeldeployment.modelplane.ai/NAME`, as kubectl writes it."""
        group = self.api_version.partition("/")[0] if "/" in self.api_version else ""
        return f"{self.kind.lower()}{f'.{group}' if group else ''}/{name}"


CACHES: Final = ApiResource(API_VERSION, "ModelCache", "modelcaches", namespaced=True)
DEPLOYMENTS: Final = ApiResource(API_VERSION, "ModelDeployment", "modeldeployments", namespaced=True)
REPLICAS: Final = ApiResource(API_VERSION, "ModelReplica", "modelreplicas", namespaced=True)


def add_namespace(parser: argparse.ArgumentParser, *, every: bool = False) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-n", "--namespace", default="default", help="the namespace (default)")
    if every:
        which.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


class PlaneObjects:
    """The objects of a plane."""

    def __init__(self, plane: RunningPlane) -> None:
        self._plane = plane
        self._served: dict[str, tuple[ApiResource, ...]] = {}

    def resource(self, kind: str, api_version: str = "") -> ApiResource:
        """By the discovery of the API, which also knows kinds that this program does not."""
        version = api_version or _version_of(kind)
        found = next((each for each in self._resources(version) if each.kind == kind), None)
        if found is None:
            raise InputError(
                f'no matches for kind "{kind}" in version "{version}": the control plane does not serve it'
            )
        return found

    def get(self, resource: ApiResource, namespace: str, name: str) -> dict[str, object]:
        with self.suggesting(resource, namespace, name):
            return self._plane.request("GET", resource.path(namespace, name))

    def suggesting(self, resource: ApiResource, namespace: str, name: str) -> AbstractContextManager[None]:
        """What is not found gets the namespace or the name that was meant."""
        return suggesting(lambda: near_object(name, namespace, self._known(resource, namespace)))

    def _known(self, resource: ApiResource, namespace: str) -> Sequence[Manifest]:
        """Of all namespaces, or of the one that somebody may read."""
        try:
            return self.list(resource, "")
        except ModelplaneError:
            return self.list(resource, namespace)

    def find(self, resource: ApiResource, namespace: str, name: str) -> dict[str, object] | None:
        try:
            return self._plane.request("GET", resource.path(namespace, name))
        except NotFoundError:
            return None

    def list(self, resource: ApiResource, namespace: str, selector: str = "") -> list[dict[str, object]]:
        """Items of a list have no kind of their own, so they get it."""
        answer = self._plane.request("GET", resource.path(namespace) + _query(selector))
        whole = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**whole, **item} for item in items_at(answer, "items")]

    def table(self, resource: ApiResource, namespace: str, name: str = "", selector: str = "") -> Mapping[str, object]:
        """As the API itself tabulates it, with the columns of the definition."""
        with self.suggesting(resource, namespace, name):
            return self._plane.request("GET", resource.path(namespace, name) + _query(selector), accepted=_TABLE)

    def apply(self, manifest: Manifest, namespace: str, *, force: bool) -> tuple[ApiResource, str]:
        """Server-side apply; created, configured or unchanged."""
        resource = self.resource(text_at(manifest, "kind"), text_at(manifest, "apiVersion"))
        if "patch" not in resource.verbs:
            raise InputError(f"a {resource.kind} cannot be applied here: the control plane shows those of its clusters")
        name = text_at(manifest, "metadata", "name")
        where = text_at(manifest, "metadata", "namespace") or namespace
        before = self.find(resource, where, name)
        path = f"{resource.path(where, name)}?fieldManager={MANAGER}"
        try:
            after = self._plane.request("PATCH", f"{path}&force=true" if force else path, manifest, sent=_APPLY)
        except ConflictError as error:
            if not is_own_conflict(str(error)):
                raise
            after = self._plane.request("PATCH", f"{path}&force=true", manifest, sent=_APPLY)
        if before is None:
            return resource, "created"
        return resource, "unchanged" if _declared(before) == _declared(after) else "configured"

    def delete(self, resource: ApiResource, namespace: str, name: str) -> None:
        with self.suggesting(resource, namespace, name):
            self._plane.request("DELETE", resource.path(namespace, name))

    def patch(self, resource: ApiResource, namespace: str, name: str, patch: Manifest, part: str = "") -> None:
        query = f"?fieldManager={MANAGER}"
        with self.suggesting(resource, namespace, name):
            self._plane.request("PATCH", resource.path(namespace, name) + (f"/{part}" if part else "") + query, patch)

    def _resources(self, api_version: str) -> tuple[ApiResource, ...]:
        if api_version not in self._served:
            root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            try:
                served = tuple(items_at(self._plane.request("GET", root), "resources"))
            except NotFoundError:
                served = ()
            self._served[api_version] = tuple(
                ApiResource(
                    api_version,
                    text_at(each, "kind"),
                    text_at(each, "name"),
                    bool(each.get("namespaced")),
                    frozenset(map(str, as_list(each.get("verbs")))),
                )
                for each in served
                if "/" not in text_at(each, "name")
            )
        return self._served[api_version]


def _query(selector: str) -> str:
    return f"?labelSelector={quote(selector, safe='')}" if selector else ""


def is_own_conflict(why: str) -> bool:
    """Whether all fields in dispute were set by commands of this program, such as `scale`, or by `kubectl apply`."""
    managers = set(_MANAGED_BY.findall(why))
    return bool(managers) and managers <= _OWN


def _declared(item: Manifest) -> Manifest:
    """Less what the server writes: its status changes while somebody applies."""
    metadata = {key: value for key, value in mapping_at(item, "metadata").items() if key not in _WRITTEN}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": metadata}


def _version_of(kind: str) -> str:
    if kind in CORE_KINDS:
        return "v1"
    return next((each.api_version for each in definitions().values() if each.names.kind == kind), f"{GROUP}/v1alpha1")
