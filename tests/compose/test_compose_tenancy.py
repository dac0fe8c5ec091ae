import pytest

from modelplane.compose.tenancy import RESTRICTED


def with_fabric(made, kind: str):
    pools = [{"name": "gpu", "className": "h200", "fabric": {"type": kind}}, {"name": "other", "className": "h200"}]
    made.required["cluster"][0]["spec"]["nodePools"] = pools
    return made


def rendered(made, kind: str) -> dict:
    items = (desired.target.manifest for desired in made.compose().desired.values())
    return next(item for item in items if item["kind"] == kind)


@pytest.mark.parametrize(
    ("fabric", "level", "added"), [("None", "baseline", None), ("InfiniBand", "privileged", ["IPC_LOCK"])]
)
def test_memory_may_be_locked_where_there_is_a_fast_network_and_nowhere_else(scene, fabric, level, added):
    made = with_fabric(scene("tensor-8"), fabric)
    labels = rendered(made, "Namespace")["metadata"]["labels"]
    engine, exporter = rendered(made, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert labels["pod-security.kubernetes.io/enforce"] == level
    assert labels["pod-security.kubernetes.io/warn"] == "restricted"
    capabilities = engine["securityContext"]["capabilities"]
    assert capabilities == {"drop": ["ALL"], **({"add": added} if added else {})}
    assert exporter["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_container_of_ours_in_a_pod_of_others_meets_the_restricted_level():
    assert RESTRICTED == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 65532,
        "runAsGroup": 65532,
    }


@pytest.mark.parametrize("backend", ["native", "kserve", "pool"])
def test_other_tenants_cannot_reach_a_replica_and_the_gateway_can(scene, backend):
    policy = rendered(scene("single-gpu", backend), "NetworkPolicy")["spec"]
    own, outside = policy["ingress"]
    assert own == {"from": [{"podSelector": policy["podSelector"]}]}
    (selector,) = outside["from"]
    assert selector["namespaceSelector"]["matchExpressions"] == [
        {"key": "modelplane.ai/tenant", "operator": "DoesNotExist"}
    ]
    assert 8000 in [port["port"] for port in outside["ports"]]
    assert policy["policyTypes"] == ["Ingress"]


def test_what_stands_beside_engines_is_restricted_in_full(scene):
    made = scene("kimi-k2-5p3d")
    found = made.compose().desired["picker"].target.manifest
    for container in found["spec"]["template"]["spec"]["containers"]:
        security = container["securityContext"]
        assert security["runAsNonRoot"]
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert not security["allowPrivilegeEscalation"]


@pytest.mark.parametrize(("backend", "level"), [("native", "baseline"), ("pool", "baseline"), ("kserve", "privileged")])
def test_a_namespace_admits_what_the_backend_makes_of_ranks_over_nodes(scene, backend, level):
    """KServe's data-parallel presets add IPC_LOCK, SYS_RAWIO and NET_RAW, which baseline refuses."""
    labels = rendered(scene("data-parallel", backend), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == level


@pytest.mark.parametrize(("backend", "scheduler"), [("grove", "kai"), ("dynamo", "none")])
def test_other_backends_add_nothing_that_baseline_refuses(scene, backend, scheduler):
    shape = "data-parallel" if backend == "grove" else "prefill-decode"
    made = scene(shape, backend, scheduler)
    assert rendered(made, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    assert "'add': [" not in str(rendered(made, "PodCliqueSet" if backend == "grove" else "DynamoGraphDeployment"))
