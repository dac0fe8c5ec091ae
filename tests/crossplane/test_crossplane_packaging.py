"""What is packaged and installed: checked against the real definitions, and small enough to read."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from modelplane.api.definitions import definitions
from modelplane.cli import main
from modelplane.crossplane.packaging import FUNCTION, PackageSource, configuration, function_meta, installation

ROOT = Path(__file__).resolve().parents[2]
SOURCE = PackageSource("registry.example.org/team", "registry.example.org/contrib", "1.2.3")
PLAIN = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
JUDGED_IN_THE_LAB = {"EnvoyProxy", "GatewayClass"}


def test_every_kind_is_defined_and_composed(problems):
    meta, *objects = configuration("1.2.3", "registry.example.org/team/function-modelplane")
    assert meta["spec"]["dependsOn"][0]["version"] == ">=v1.2.3"
    assert [problems(item) for item in objects] == [[]] * len(objects)
    composed = {item["spec"]["compositeTypeRef"]["kind"] for item in objects if item["kind"] == "Composition"}
    assert composed == {definition.kind for definition in definitions().values()}
    allowed = {"CompositeResourceDefinition", "Composition"}
    assert {item["kind"] for item in objects} == allowed


@pytest.mark.slow
def test_definitions_are_those_of_the_source_files():
    packaged = {item["metadata"]["name"]: item for item in configuration("1") if "names" in item["spec"]}
    for path in sorted((ROOT / "apis").glob("*.yaml")):
        written = yaml.safe_load(path.read_text())
        made = packaged[written["metadata"]["name"]]
        assert made["spec"]["versions"][0]["schema"] == written["spec"]["versions"][0]["schema"], path.name
        assert made["spec"]["names"]["kind"] == written["spec"]["names"]["kind"]
        assert made["spec"]["scope"] == written["spec"]["scope"]


def test_columns_that_crossplane_adds_are_not_ours():
    for item in configuration("1"):
        for version in item["spec"].get("versions", ()):
            names = {column["name"] for column in version["additionalPrinterColumns"]}
            assert not names & {"SYNCED", "READY", "COMPOSITION", "COMPOSITIONREVISION", "AGE"}, item["metadata"]


def test_what_is_installed_is_valid(problems):
    checked = [item for item in installation(SOURCE) if item["kind"] not in PLAIN | JUDGED_IN_THE_LAB]
    kinds = ("Role", "RoleBinding", "DeploymentRuntimeConfig", "Provider", "Function", "Configuration")
    assert {item["kind"]: problems(item) for item in checked} == {
        kind: [] for kind in (*kinds, "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "Deployment", "Service")
    }


def test_no_right_is_a_wildcard():
    rules = [rule for item in installation(SOURCE) for rule in item.get("rules", ())]
    assert len(rules) > 5
    assert [rule for rule in rules if "*" in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}] == []


def test_the_function_runs_unprivileged_on_a_read_only_file_system():
    (runtime,) = (
        item
        for item in installation(SOURCE)
        if item["kind"] == "DeploymentRuntimeConfig" and item["metadata"]["name"] == FUNCTION
    )
    pod = runtime["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert (pod["volumes"], container["volumeMounts"]) == (
        [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
        [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  the pod's own
    )


@pytest.mark.parametrize(
    ("words", "flags", "rights"),
    [
        ((), ["--live", "--observe", "--images=a.example/x"], ["modelplane-function-observes"]),
        (("--observe",), ["--live", "--observe", "--images=a.example/x"], ["modelplane-function-observes"]),
        (("--no-observe", "--images", "b.example/i/"), ["--live", "--no-observe", "--images=b.example/i"], []),
    ],
)
def test_clusters_are_observed_unless_one_opts_out(words, flags, rights, capsys):
    assert main(["install", "--packages", "a.example/x", "--providers", "a.example/y", "--dry-run", *words]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    (runtime,) = (
        item for item in printed if item["kind"] == "DeploymentRuntimeConfig" and item["metadata"]["name"] == FUNCTION
    )
    (container,) = runtime["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == flags
    assert [item["metadata"]["name"] for item in printed if item["kind"] == "Role"] == rights


@pytest.mark.parametrize("urls", [(), ("http://router:9091/metrics",), ("http://a/metrics", "https://b/federate")])
def test_the_function_may_write_traffic_where_metrics_are_named(urls, capsys):
    words = [f"--traffic-metrics={url}" for url in urls]
    assert main(["install", "--packages", "a.example/x", "--providers", "a.example/y", "--dry-run", *words]) == 0
    printed = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(capsys.readouterr().out)}
    runtime = printed["DeploymentRuntimeConfig", FUNCTION]
    (container,) = runtime["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--live", "--observe", "--images=a.example/x", *words]
    rules = printed["ClusterRole", "modelplane:function"]["rules"]
    given = [(rule["resources"], rule["verbs"]) for rule in rules if "modelendpoints" in rule["resources"][0]]
    expected = [(["modelendpoints"], ["list"]), (["modelendpoints/status"], ["patch"])]
    assert given == (expected if urls else [])


@pytest.mark.parametrize(
    ("clouds", "version"), [((), "v1.2.1"), (("GKE", "K3s"), "v1.2.1"), (("GKE", "Nebius"), "v1.3.0")]
)
def test_a_cloud_whose_clusters_need_a_newer_provider_kubernetes_gets_it(clouds, version):
    made = installation(PackageSource("a.b/c", "a.b/d", "1.0.0", helm=True, clouds=clouds))
    (found,) = [
        item["spec"]["package"]
        for item in made
        if item["metadata"]["name"] == "provider-kubernetes" and "package" in item.get("spec", {})
    ]
    assert found == f"a.b/d/provider-kubernetes:{version}"


def test_the_providers_of_clouds_are_there_where_they_are_asked_for():
    made = installation(PackageSource("a.b/c", "a.b/d", "1.0.0", helm=True, clouds=("GKE",)))
    packages = {item["metadata"]["name"]: item["spec"]["package"] for item in made if item["kind"] == "Provider"}
    assert packages == {
        "provider-kubernetes": "a.b/d/provider-kubernetes:v1.2.1",
        "provider-helm": "a.b/d/provider-helm:v1.4.0",
        "provider-gcp-compute": "a.b/d/provider-gcp-compute:v3.0.0",
        "provider-gcp-container": "a.b/d/provider-gcp-container:v3.0.0",
        "provider-gcp-cloudplatform": "a.b/d/provider-gcp-cloudplatform:v3.0.0",
    }


def test_helm_and_the_pull_secret_are_there_where_they_are_asked_for():
    made = installation(PackageSource("a.b/c", "a.b/d", "1.0.0", helm=True, pull_secret="pull"))
    packages = [item for item in made if "package" in item.get("spec", {})]
    assert [item["metadata"]["name"] for item in packages] == [
        *("provider-kubernetes", "provider-helm", FUNCTION, "modelplane"),
    ]
    assert {item["spec"]["packagePullSecrets"][0]["name"] for item in packages} == {"pull"}


def test_the_command_prints_it_all(capsys):
    assert main(["install", "--packages", "a.example/x", "--providers", "a.example/y", "--dry-run"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [item["kind"] for item in printed] == [item["kind"] for item in installation(SOURCE)]


@pytest.mark.parametrize("option", ["packages", "providers"])
def test_a_repository_without_a_host_is_refused(option, capsys):
    given = {"packages": "a.example/x", "providers": "a.example/y", option: "team"}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    assert main(["install", *words, "--dry-run"]) == 1
    assert f"--{option} 'team'" in capsys.readouterr().err


@pytest.mark.slow
def test_packages_are_built_without_a_daemon_and_the_same_each_time(tmp_path):
    def built():
        command = [sys.executable, str(ROOT / "tools" / "build_packages.py"), "--runtime", "none", "--output", tmp_path]
        subprocess.run([*map(str, command)], check=True, capture_output=True)
        return {path.name: path.read_bytes() for path in sorted(tmp_path.glob("*.xpkg"))}

    first = built()
    assert [name.rpartition("-v")[0] for name in first] == ["function-modelplane", "modelplane"]
    assert built() == first
    assert [_package(content) for content in first.values()] == [[function_meta()], list(configuration("0.2.0"))]


def _package(content):
    """The objects of a package, found as Crossplane finds them: by the label that names the layer."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        config = json.load(archive.extractfile(manifest["Config"]))
        marked = [name.partition(":")[2] for name, text in config["config"]["Labels"].items() if text == "base"]
        layer = archive.extractfile(f"{marked[0].removeprefix('sha256:')}.tar.gz").read()
    with tarfile.open(fileobj=io.BytesIO(layer)) as inner:
        return list(yaml.safe_load_all(inner.extractfile("package.yaml").read()))


def test_helm_keeps_what_others_stand_on():
    """Uninstalling by Helm takes neither kinds, with which every object would go, nor kubeconfigs, nor providers."""
    made = installation(PackageSource("a.example/x", "a.example/y", "1", helm=True, clouds=("GKE",), hub="h.example"))
    kept = [each for each in made if "annotations" in each["metadata"]]
    assert {each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in kept} == {"keep"}
    providers = {each["metadata"]["name"] for each in made if each["kind"] == "Provider"}
    assert {"provider-kubernetes", "provider-helm"} < providers
    assert {(each["kind"], each["metadata"]["name"]) for each in kept} == {
        ("Namespace", "modelplane-system"),
        ("Configuration", "modelplane"),
        *((kind, name) for name in providers for kind in ("Provider", "DeploymentRuntimeConfig")),
    }
