import pytest

from modelplane.envoy import GatewayProblem, GatewayView
from modelplane.envoy.objects import BackendRef, GatewayObjectMeta
from modelplane.envoy.pools import BACKEND_GROUP, BackendResolver, EnvoyCluster, PoolMember, UnresolvedRef
from modelplane.sim.engine import Address

ROUTE = GatewayObjectMeta(name="demo", namespace="team-a")
TO_SERVICE = BackendRef(name="pods", port=80)
TO_BACKEND = BackendRef(name="edge", group=BACKEND_GROUP, kind="Backend")


def resolve(ref, **view):
    resolver = BackendResolver(GatewayView(name="gate", host="127.0.0.1", port=80, **view))
    return resolver.resolve(ref, ROUTE)


def test_a_service_is_the_ready_endpoints_of_its_slices(build):
    slices = (
        *build.endpoint_slice("pods", Address("10.0.0.2", 8000), Address("10.0.0.1", 8001)),
        *build.endpoint_slice("pods", Address("10.0.0.3", 8002), ready=None),
        *build.endpoint_slice("pods", Address("10.0.0.4", 8003), ready=False),
        *build.endpoint_slice("pods", Address("10.0.0.5", 8004), port_name="metrics"),
        *build.endpoint_slice("others", Address("10.0.0.6", 8005)),
    )
    members = (PoolMember("10.0.0.1", 8001), PoolMember("10.0.0.2", 8000), PoolMember("10.0.0.3", 8002))
    found = resolve(TO_SERVICE, services=(build.service("pods"),), slices=slices)
    assert found == EnvoyCluster("gate/Service/team-a/pods/80", members)


def test_an_unnamed_port_finds_unnamed_ports(build):
    slices = build.endpoint_slice("pods", Address("10.0.0.1", 8000), port_name=None)
    found = resolve(TO_SERVICE, services=(build.service("pods", ports=({"port": 80},)),), slices=slices)
    assert found == EnvoyCluster("gate/Service/team-a/pods/80", (PoolMember("10.0.0.1", 8000),))


def test_a_service_without_ready_endpoints_is_an_empty_pool(build):
    assert resolve(TO_SERVICE, services=(build.service("pods"),)) == EnvoyCluster("gate/Service/team-a/pods/80", ())


def test_a_backend_is_its_addresses(build):
    edge = build.backend(
        "edge", {"ip": {"address": "127.0.0.1", "port": 2}}, {"ip": {"address": "127.0.0.1", "port": 1}}
    )
    members = (PoolMember("127.0.0.1", 1), PoolMember("127.0.0.1", 2))
    assert resolve(TO_BACKEND, backends=(edge,)) == EnvoyCluster("gate/Backend/team-a/edge", members)


@pytest.mark.parametrize(
    ("ref", "reason", "message"),
    [
        (BackendRef(name="no", port=80), "BackendNotFound", "Service team-a/no does not exist or cannot be read"),
        (BackendRef(name="pods", port=81), "BackendNotFound", "Service team-a/pods has no port 81"),
        (BackendRef(name="pods"), "BackendNotFound", "Service team-a/pods has no port None"),
        (TO_BACKEND, "BackendNotFound", "Backend team-a/edge does not exist or cannot be read"),
        (
            BackendRef(name="pool", group="inference.networking.k8s.io", kind="InferencePool"),
            "InvalidKind",
            "InferencePool team-a/pool is neither a Service nor a Backend",
        ),
        (
            BackendRef(name="edge", kind="Backend"),
            "InvalidKind",
            "Backend team-a/edge is neither a Service nor a Backend",
        ),
        (
            BackendRef(name="pods", namespace="team-b", port=80),
            "RefNotPermitted",
            "Service team-b/pods is in another namespace and no grant allows it",
        ),
    ],
)
def test_an_unresolved_reference_has_a_reason(build, ref, reason, message):
    assert resolve(ref, services=(build.service("pods"),)) == UnresolvedRef(reason, message)


def grant(*, namespace="team-b", source="team-a", kind="Service", name=None):
    target = {"group": "", "kind": kind} | ({"name": name} if name else {})
    sources = [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": source}]
    return {"metadata": {"name": "grant", "namespace": namespace}, "spec": {"from": sources, "to": [target]}}


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (grant(), True),
        (grant(name="pods"), True),
        (grant(name="others"), False),
        (grant(namespace="team-a"), False),
        (grant(source="team-c"), False),
        (grant(kind="Secret"), False),
    ],
)
def test_only_a_grant_of_the_other_namespace_lets_a_route_in(build, given, allowed):
    ref = BackendRef(name="pods", namespace="team-b", port=80)
    found = resolve(ref, services=(build.service("pods", namespace="team-b"),), grants=(given,))
    assert isinstance(found, EnvoyCluster) == allowed


def test_an_invalid_object_is_reported_and_affects_no_other(build):
    broken = build.backend("edge", {"ip": {"address": "nowhere", "port": 1}})
    good = build.backend("good", {"ip": {"address": "127.0.0.1", "port": 1}})
    resolver = BackendResolver(GatewayView(name="gate", host="127.0.0.1", port=80, backends=(broken, good)))
    message = "spec.endpoints[0].ip: 'nowhere' does not appear to be an IPv4 or IPv6 address"
    assert resolver.problems == [GatewayProblem("gate", "Backend", "team-a", "edge", "UnsupportedValue", message)]
    found = resolver.resolve(BackendRef(name="good", group=BACKEND_GROUP, kind="Backend"), ROUTE)
    assert isinstance(found, EnvoyCluster)
