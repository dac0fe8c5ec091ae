"""The kinds that the API serves, and how paths name them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from modelplane.api.definitions import definitions


@dataclass(frozen=True, slots=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    writable: bool = True
    status: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_OTHERS = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",)),
    Resource("", "v1", "secrets", "Secret", namespaced=True),
    Resource("", "v1", "configmaps", "ConfigMap", namespaced=True, short_names=("cm",)),
    Resource("", "v1", "events", "Event", namespaced=True, short_names=("ev",), writable=False),
    Resource("gateway.networking.k8s.io", "v1", "gateways", "Gateway", namespaced=True, writable=False),
    Resource("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute", namespaced=True, writable=False),
    Resource("gateway.envoyproxy.io", "v1alpha1", "backends", "Backend", namespaced=True, writable=False),
)


@cache
def resources() -> Mapping[tuple[str, str, str], Resource]:
    """By group, version and plural."""
    ours = (
        Resource(d.group, d.version, d.plural, d.kind, d.namespaced, d.names.short_names, status=True)
        for d in definitions().values()
    )
    return {(each.group, each.version, each.plural): each for each in (*_OTHERS, *ours)}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection where `name` is None."""

    resource: Resource
    namespace: str | None
    name: str | None
    subresource: str


def find_target(path: str) -> Target | None:
    """/api/v1/... or /apis/GROUP/VERSION/..., with namespaces/NAME before namespaced kinds."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    match rest:
        case ["namespaces", namespace, plural, *named]:
            return _target(resources().get((group, version, plural)), namespace, named)
        case [plural, *named]:
            return _target(resources().get((group, version, plural)), None, named)
        case _:
            return None


def _target(resource: Resource | None, namespace: str | None, named: list[str]) -> Target | None:
    if resource is None or (namespace is not None and not resource.namespaced):
        return None
    match named:
        case []:
            return Target(resource, namespace, None, "")
        case [name, *below] if len(below) <= 1 and (namespace is not None or not resource.namespaced):
            return Target(resource, namespace, name, "".join(below))
        case _:
            return None
