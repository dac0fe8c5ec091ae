"""The hub as it is installed: started as the program takes it, restricted, with the rights that it uses."""

from modelplane.cli._main import _parser
from modelplane.crossplane.packaging import PackageSource, installation

SOURCE = PackageSource("a.example/x", "a.example/y", "1.2.3", hub="hub.example.org")


def hub():
    items = installation(SOURCE)
    return {(item["kind"], item["metadata"]["name"]): item for item in items if "hub" in item["metadata"]["name"]}


def test_it_is_there_only_where_it_is_wanted():
    without = installation(PackageSource("a.example/x", "a.example/y", "1.2.3"))
    assert [item for item in without if "hub" in item["metadata"]["name"]] == []
    assert list(hub()) == [
        ("ServiceAccount", "modelplane-hub"),
        ("Role", "modelplane-hub"),
        ("RoleBinding", "modelplane-hub"),
        ("ClusterRole", "modelplane:hub"),
        ("ClusterRoleBinding", "modelplane:hub"),
        ("Deployment", "modelplane-hub"),
        ("Service", "modelplane-hub"),
        ("Service", "modelplane-hub-agents"),
        ("NetworkPolicy", "modelplane-hub"),
    ]


def test_it_is_started_as_the_program_takes_it():
    pod = hub()["Deployment", "modelplane-hub"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    words = ["hub", *container["args"]]
    arguments = _parser(words).parse_args(words)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert (arguments.host, arguments.port, arguments.proxy_port) == (
        ["hub.example.org"],
        ports["agents"],
        ports["proxy"],
    )
    assert container["image"] == "a.example/x/modelplane-hub:v1.2.3"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_one_runs_and_never_two():
    spec = hub()["Deployment", "modelplane-hub"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_port_of_the_control_plane_does_not_leave_the_cluster():
    inner, outer = (hub()["Service", name]["spec"] for name in ("modelplane-hub", "modelplane-hub-agents"))
    assert ([port["port"] for port in inner["ports"]], inner.get("type")) == ([8444], None)
    assert ([port["port"] for port in outer["ports"]], outer["type"]) == ([8443], "LoadBalancer")


def test_who_needs_clusters_calls_through_it_and_agents_dial_it_from_anywhere():
    spec = hub()["NetworkPolicy", "modelplane-hub"]["spec"]
    assert spec["podSelector"] == hub()["Deployment", "modelplane-hub"]["spec"]["selector"]
    proxied, dialled = spec["ingress"]
    assert (proxied["ports"], dialled) == (
        [{"protocol": "TCP", "port": 8444}],
        {"ports": [{"protocol": "TCP", "port": 8443}]},
    )
    assert {tuple(each["namespaceSelector"]["matchLabels"].items()) for each in proxied["from"]} == {
        (("kubernetes.io/metadata.name", "crossplane-system"),)
    }
    packages = {
        f"pkg.crossplane.io/{item['kind'].lower()}": item["metadata"]["name"]
        for item in installation(SOURCE)
        if item["kind"] in {"Function", "Provider"}
    }
    called = [each["podSelector"]["matchLabels"] for each in proxied["from"]]
    assert called == [
        {"pkg.crossplane.io/function": packages["pkg.crossplane.io/function"]},
        {"pkg.crossplane.io/provider": packages["pkg.crossplane.io/provider"]},
        {"pkg.crossplane.io/provider": "provider-helm"},
    ]


def test_its_rights(problems):
    found = hub()
    assert found["Role", "modelplane-hub"]["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get", "patch"]}
    ]
    assert found["ClusterRole", "modelplane:hub"]["rules"] == [
        {"apiGroups": ["modelplane.ai"], "resources": ["inferenceclusters"], "verbs": ["patch"]}
    ]
    checked = ("Role", "RoleBinding", "Deployment", "Service", "ServiceAccount", "NetworkPolicy")
    assert {key: problems(item) for key, item in found.items() if key[0] in checked} == {
        key: [] for key in found if key[0] in checked
    }
