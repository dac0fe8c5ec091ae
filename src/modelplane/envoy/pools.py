"""From a route's backendRef to the addresses behind it.

A reference resolves to an `EnvoyCluster` or to an `UnresolvedRef` with the reason. A backend without ready endpoints is
an EnvoyCluster without members: this is normal during a rollout and no problem of the route.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import is_
from typing import cast

from modelplane.compose.service_plan import RetryBudget
from modelplane.envoy import objects
from modelplane.envoy.objects import BackendRef, Object, UnsupportedError
from modelplane.envoy.view import GatewayProblem, GatewayView, KubernetesObject, ProblemReason

ROUTE_GROUP = "gateway.networking.k8s.io"
BACKEND_GROUP = "gateway.envoyproxy.io"

_Name = tuple[str, str]
_Sources = tuple[objects.Located, ...]


@dataclass(frozen=True, slots=True, order=True)
class PoolMember:
    """An address, its weight, the headers that are set on requests to it, and its place in the order of fallback.

    Without a port the host is the path of a socket.
    """

    host: str
    port: int
    weight: int = 1
    headers: tuple[tuple[str, str], ...] = ()
    tier: int = 0


@dataclass(frozen=True, slots=True)
class UpstreamTls:
    """TLS to the server: a known CA must have signed its name, or its address if it has no name."""

    sni: str | None = None


@dataclass(frozen=True, slots=True)
class PoolPicker:
    """The endpoint picker that selects a member for each request, and its failure mode."""

    name: str
    members: tuple[PoolMember, ...]
    fails_open: bool


@dataclass(frozen=True, slots=True)
class EnvoyCluster:
    """An Envoy cluster: addresses. Envoy resolves no names, since whoever answers for one could send it anywhere.

    picker: chooses among the members; without one Envoy does.
    added: headers that requests get there, each with whether it replaces the client's. They may be secret.
    retries: the budget of retries. With one, members that fail are ejected for a while.
    """

    name: str
    members: tuple[PoolMember, ...]
    tls: UpstreamTls | None = None
    picker: PoolPicker | None = None
    added: tuple[tuple[str, str, bool], ...] = field(default=(), repr=False)
    retries: RetryBudget | None = None


@dataclass(frozen=True, slots=True)
class UnresolvedRef:
    """A reference that cannot be resolved."""

    reason: ProblemReason
    message: str


class BackendResolver:
    """Everything the routes of one gateway may refer to, indexed once. `problems` are objects it could not read.

    Results of `before` for the same objects are reused.
    """

    def __init__(self, view: GatewayView, before: "BackendResolver | None" = None) -> None:
        self.problems: list[GatewayProblem] = []
        self._gateway = view.name
        self.parsed: dict[int, tuple[KubernetesObject, objects.Located]] = {}
        self._parsed_before = before.parsed if before is not None else {}
        self.made: dict[tuple[str, _Name, int | None], tuple[_Sources, EnvoyCluster]] = {}
        self._made_before = before.made if before is not None else {}
        self._services = self._index(view.services, objects.CoreService)
        self._backends = self._index(view.backends, objects.EnvoyBackend)
        self._grants = self._index(view.grants, objects.ReferenceGrant)
        self._filters = self._index(view.filters, objects.HTTPRouteFilter)
        self._secrets = self._index(view.secrets, objects.Secret)
        self._slices: dict[_Name, list[objects.EndpointSlice]] = defaultdict(list)
        for piece in self._index(view.slices, objects.EndpointSlice).values():
            service = piece.metadata.labels.get(objects.SERVICE_NAME_LABEL, "")
            self._slices[piece.metadata.namespace, service].append(piece)

    def resolve(self, ref: BackendRef, route: objects.GatewayObjectMeta) -> EnvoyCluster | UnresolvedRef:
        """Resolve a reference of `route`."""
        target = (ref.namespace or route.namespace, ref.name)
        if target[0] != route.namespace and not self._granted(ref, route, target):
            return UnresolvedRef(
                "RefNotPermitted", f"{_called(ref, target)} is in another namespace and no grant allows it"
            )
        if (ref.group, ref.kind) == ("", "Service"):
            return self._service(ref, target)
        if (ref.group, ref.kind) == (BACKEND_GROUP, "Backend"):
            return self._with_credentials(self._backend(ref, target), ref, route)
        return UnresolvedRef("InvalidKind", f"{_called(ref, target)} is neither a Service nor a Backend")

    def _service(self, ref: BackendRef, target: _Name) -> EnvoyCluster | UnresolvedRef:
        service = self._services.get(target)
        if service is None:
            return UnresolvedRef("BackendNotFound", f"{_called(ref, target)} does not exist or cannot be read")
        port = next((port for port in service.spec.ports if port.port == ref.port), None)
        if port is None:
            return UnresolvedRef("BackendNotFound", f"{_called(ref, target)} has no port {ref.port}")
        pieces = self._slices.get(target, [])
        name = f"{self._gateway}/Service/{target[0]}/{target[1]}/{port.port}"
        picker = service.spec.picker
        beside = self._slices.get((target[0], picker.name), []) if picker is not None else []
        return self._pool(
            ("Service", target, ref.port),
            (service, *pieces, *beside),
            lambda: EnvoyCluster(name, _ready_members(pieces, port), picker=self._picker(picker, target[0])),
        )

    def _picker(self, ref: objects.PickerRef | None, namespace: str) -> PoolPicker | None:
        """None if it has no endpoint and fails open."""
        if ref is None:
            return None
        service = self._services.get((namespace, ref.name))
        ports = service.spec.ports if service is not None else ()
        port = next((port for port in ports if port.port == ref.port), None)
        pieces = self._slices.get((namespace, ref.name), [])
        members = _ready_members(pieces, port) if port is not None else ()
        if not members and ref.fails_open:
            return None
        name = f"{self._gateway}/Picker/{namespace}/{ref.name}/{ref.port}"
        return PoolPicker(name, members, ref.fails_open)

    def _backend(self, ref: BackendRef, target: _Name) -> EnvoyCluster | UnresolvedRef:
        backend = self._backends.get(target)
        if backend is None:
            return UnresolvedRef("BackendNotFound", f"{_called(ref, target)} does not exist or cannot be read")
        name = f"{self._gateway}/Backend/{target[0]}/{target[1]}"
        return self._pool(("Backend", target, None), (backend,), lambda: _backend_pool(name, backend))

    def _with_credentials(
        self, found: EnvoyCluster | UnresolvedRef, ref: BackendRef, route: objects.GatewayObjectMeta
    ) -> EnvoyCluster | UnresolvedRef:
        """The pool with what the filters of the reference add. Without a credential nothing is sent there."""
        added = []
        for name in ref.extensions():
            given = self._filters.get((route.namespace, name))
            injection = given.spec.credential_injection if given is not None else None
            secret = self._secrets.get((route.namespace, injection.credential.value_ref.name)) if injection else None
            credential = secret.credential() if secret is not None else None
            if injection is None or credential is None:
                return UnresolvedRef(
                    "BackendNotFound", f"HTTPRouteFilter {route.namespace}/{name} has no credential to add"
                )
            added.append((injection.header, credential, injection.overwrite))
        return replace(found, added=tuple(added)) if isinstance(found, EnvoyCluster) and added else found

    def _pool(
        self, key: tuple[str, _Name, int | None], sources: _Sources, make: Callable[[], EnvoyCluster]
    ) -> EnvoyCluster:
        """The cluster of these objects, reused if the objects are the same."""
        known = self.made.get(key) or self._made_before.get(key)
        same = known is not None and len(known[0]) == len(sources) and all(map(is_, known[0], sources))
        self.made[key] = known if known is not None and same else (sources, make())
        return self.made[key][1]

    def _granted(self, ref: BackendRef, route: objects.GatewayObjectMeta, target: _Name) -> bool:
        source = objects.GrantFrom(ROUTE_GROUP, "HTTPRoute", route.namespace)
        wanted = objects.GrantTo(ref.group, ref.kind, ref.name)
        grants = (grant for grant in self._grants.values() if grant.metadata.namespace == target[0])
        return any(grant.spec.allows(source, wanted) for grant in grants)

    def _index(self, manifests: tuple[KubernetesObject, ...], kind: type[Object]) -> dict[_Name, Object]:
        found: dict[_Name, Object] = {}
        for manifest in manifests:
            known = self._parsed_before.get(id(manifest))
            try:
                thing = known[1] if known is not None and known[0] is manifest else objects.read(manifest, kind)
            except UnsupportedError as error:
                self._refuse(str(manifest.get("kind")), manifest, str(error))
            else:
                self.parsed[id(manifest)] = (manifest, thing)
                found[thing.metadata.namespace, thing.metadata.name] = cast("Object", thing)
        return found

    def _refuse(self, kind: str, manifest: KubernetesObject, message: str) -> None:
        self.problems.append(
            GatewayProblem(self._gateway, kind, *objects.name_of(manifest), "UnsupportedValue", message)
        )


def _ready_members(pieces: Iterable[objects.EndpointSlice], port: objects.ServicePort) -> tuple[PoolMember, ...]:
    members = {
        PoolMember(endpoint.addresses[0], number)
        for piece in pieces
        for number in _numbers(piece, port)
        for endpoint in piece.endpoints
        if endpoint.conditions.ready is not False
    }
    return tuple(sorted(members))


def _backend_pool(name: str, backend: objects.EnvoyBackend) -> EnvoyCluster:
    members = {PoolMember(one.ip.address, one.ip.port) for one in backend.spec.endpoints}
    tls = UpstreamTls(backend.spec.tls.sni) if backend.spec.tls is not None else None
    return EnvoyCluster(name, tuple(sorted(members)), tls=tls)


def _numbers(piece: objects.EndpointSlice, port: objects.ServicePort) -> list[int]:
    """The port numbers of a slice that carry the named port of its Service."""
    return [one.port for one in piece.ports if one.port is not None and (one.name or "") == (port.name or "")]


def _called(ref: BackendRef, target: _Name) -> str:
    return f"{ref.kind} {target[0]}/{target[1]}"
