"""The objects around the function server and the fleet's gateways, whole."""

from modelplane.cli import main
from modelplane.crossplane.packaging import FUNCTION, PackageSource, installation

SOURCE = PackageSource("registry.example.org/team", "registry.example.org/contrib", "1.2.3")
PODS = {"matchLabels": {"pkg.crossplane.io/function": FUNCTION}}
LABELS = {"app.kubernetes.io/part-of": "modelplane"}


def installed(source=SOURCE):
    return {(item["kind"], item["metadata"]["name"]): item for item in installation(source)}


def test_one_of_two_function_servers_may_be_evicted():
    found = installed()
    assert found["PodDisruptionBudget", FUNCTION] == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": FUNCTION, "namespace": "crossplane-system", "labels": LABELS},
        "spec": {"maxUnavailable": 1, "selector": PODS},
    }
    deployment = found["DeploymentRuntimeConfig", FUNCTION]["spec"]["deploymentTemplate"]["spec"]
    assert deployment["replicas"] == 2
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert spread == {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": PODS,
    }


def test_providers_run_once():
    """They elect no leader by themselves."""
    spec = installed()["DeploymentRuntimeConfig", "provider-kubernetes"]["spec"]["deploymentTemplate"]["spec"]
    assert "replicas" not in spec


def test_crossplane_alone_calls_the_function():
    spec = installed()["NetworkPolicy", FUNCTION]["spec"]
    assert spec == {
        "podSelector": PODS,
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [{"podSelector": {"matchLabels": {"app": "crossplane"}}}],
                "ports": [{"protocol": "TCP", "port": 9443}],
            },
            {"ports": [{"protocol": "TCP", "port": 8080}]},
        ],
    }


def test_the_fleets_gateway_class_has_two_envoys_that_drain():
    found = installed()
    proxy, its_class = found["EnvoyProxy", "modelplane"], found["GatewayClass", "modelplane"]
    assert its_class["spec"] == {
        "controllerName": "gateway.envoyproxy.io/gatewayclass-controller",
        "parametersRef": {
            "group": "gateway.envoyproxy.io",
            "kind": "EnvoyProxy",
            "name": proxy["metadata"]["name"],
            "namespace": proxy["metadata"]["namespace"],
        },
    }
    assert proxy["spec"] == {
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {
                "envoyDeployment": {"replicas": 2},
                "envoyPDB": {"minAvailable": 1},
                "envoyService": {"externalTrafficPolicy": "Cluster"},
            },
        },
        "shutdown": {"drainTimeout": "60s", "minDrainDuration": "10s"},
    }


def test_a_fleet_without_envoy_gateway_installs_without_its_kinds(capsys):
    words = ["install", "--packages", "a.example/x", "--providers", "a.example/y", "--dry-run"]
    assert main([*words, "--no-gateway"]) == 0
    without = capsys.readouterr().out
    assert main(words) == 0
    assert ("EnvoyProxy" in without, "EnvoyProxy" in capsys.readouterr().out) == (False, True)
