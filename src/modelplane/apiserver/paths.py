"""The resource of a request's path."""

from dataclasses import dataclass

from modelplane.apiserver.resources import Resource, resources
from modelplane.reconcile.store import ObjectRef


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A collection where `name` is empty; all namespaces where a namespaced kind has `namespace` None."""

    resource: Resource
    namespace: str | None
    name: str
    subresource: str

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(*self.resource.home, self.namespace or "", self.name)

    @property
    def is_everywhere(self) -> bool:
        """Whether it spans all namespaces of a namespaced kind: such a collection is read-only."""
        return self.resource.namespaced and self.namespace is None


def find_target(path: str) -> RequestInfo | None:
    """/api/v1/... or /apis/GROUP/VERSION/..., with namespaces/NAME before namespaced kinds."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    match rest:
        case ["namespaces", namespace, plural, *named] if namespace and (group, version, plural) in resources():
            return _target(resources()[group, version, plural], namespace, named)
        case [plural, *named] if (group, version, plural) in resources():
            return _target(resources()[group, version, plural], None, named)
        case _:
            return None


def _target(resource: Resource, namespace: str | None, named: list[str]) -> RequestInfo | None:
    if namespace is not None and not resource.namespaced:
        return None
    match named:
        case []:
            return RequestInfo(resource, namespace, "", "")
        case [name] if name and (namespace is not None or not resource.namespaced):
            return RequestInfo(resource, namespace, name, "")
        case [name, subresource] if name and (namespace is not None or not resource.namespaced):
            return RequestInfo(resource, namespace, name, subresource)
        case _:
            return None
