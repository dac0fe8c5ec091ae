"""Envoy Gateway in the lab: what it is told, and a root with files that the machine does not have."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from lab.ai_gateway import extension_manager
from lab.annex import Annex
from lab.cluster import new_cluster
from lab.envoy_gateway import (
    CONTROLLER,
    PROVIDER,
    PROVIDER_PAIR,
    EnvoyGateway,
    _class,
    _proxy,
    envoy_version,
    infrastructure,
)
from lab.namespace import find_isolation
from lab.supervisor import Supervisor
from modelplane.envoy.bootstrap import packaged_binary


def test_it_runs_the_envoy_that_is_here(tmp_path):
    cluster = new_cluster("c", 21_000, tmp_path, lambda name: tmp_path / name)
    gateway = EnvoyGateway(Supervisor(tmp_path), cluster, None, 2)
    gateway._folder.mkdir()
    gateway._lay_files()
    proxy = _proxy(gateway._access_log())["spec"]
    assert proxy["provider"]["host"] == {"envoyVersion": envoy_version()}
    (written,) = proxy["telemetry"]["accessLog"]["settings"]
    assert written["sinks"] == [{"type": "File", "file": {"path": str(tmp_path / "envoy" / "access.log")}}]
    assert written["format"]["json"]["picked"] == "%REQ(x-gateway-destination-endpoint)%"
    (found,) = gateway._folder.glob(f"data/envoy-versions/{envoy_version()}/bin/envoy")
    assert found.resolve() == packaged_binary().resolve()
    config = yaml.safe_load(gateway._config({}).read_text())
    assert config["extensionApis"] == {"enableBackend": True}
    assert "extensionManager" not in config
    assert config["provider"]["custom"]["infrastructure"]["host"]["dataHome"] == str(gateway._folder / "data")


def test_classes_name_the_controller_and_the_proxy():
    made = _class("modelplane")["spec"]
    assert made["controllerName"] == CONTROLLER
    reference = made["parametersRef"]
    assert (reference["name"], reference["namespace"]) == (
        _proxy(Path("log"))["metadata"]["name"],
        _proxy(Path("log"))["metadata"]["namespace"],
    )


def test_a_gateway_has_what_the_controller_looks_for():
    gateway = {"metadata": {"name": "g", "namespace": "n"}, "spec": {"listeners": [{"name": "http", "port": 80}]}}
    service, deployment = infrastructure(gateway)
    labels = {"gateway.envoyproxy.io/owning-gateway-name": "g", "gateway.envoyproxy.io/owning-gateway-namespace": "n"}
    assert service["metadata"]["labels"] == deployment["metadata"]["labels"] == labels
    assert service["spec"] == {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]}


@pytest.mark.skipif(not find_isolation().own_network, reason="this machine lets us make no namespaces")
def test_files_are_where_a_program_looks_for_them(tmp_path):
    for name in ("root", "certificates"):
        (tmp_path / name).mkdir()
    (tmp_path / "certificates" / "tls.crt").write_text("found")
    prefix = find_isolation().prefix
    assert prefix[0] == shutil.which("unshare")
    placed = f"/no-such-folder={tmp_path / 'certificates'}"
    script = "import os; print(open('/no-such-folder/tls.crt').read(), os.path.exists('/etc'), os.listdir('/dev/shm'))"
    command = (sys.executable, "-m", "lab.rooted", str(tmp_path / "root"), placed, "--", sys.executable, "-c", script)
    done = subprocess.run((*prefix, *command), capture_output=True, text=True, check=False)
    assert done.stdout == "found True []\n", done.stderr
    assert not Path("/no-such-folder").exists()


def test_envoy_trusts_the_provider_of_the_lab_beside_the_systems_authorities(tmp_path):
    cluster = new_cluster("c", 21_000, tmp_path, lambda name: tmp_path / name)
    gateway = EnvoyGateway(Supervisor(tmp_path), cluster, None, 2)
    gateway._folder.mkdir()
    bundle = gateway._trust().read_bytes()
    assert bundle.endswith(cluster.keys.authority.pair.certificate)
    served = x509.load_pem_x509_certificate((cluster.folder / PROVIDER_PAIR / "tls.crt").read_bytes())
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [PROVIDER]


def test_with_pools_it_calls_the_ai_gateway_and_looks_names_up_in_the_cluster(tmp_path):
    cluster = new_cluster("c", 21_000, tmp_path, lambda name: tmp_path / name)
    gateway = EnvoyGateway(Supervisor(tmp_path), cluster, None, 3, pools=True)
    gateway._folder.mkdir()
    written = gateway._config({"extensionManager": extension_manager("10.243.103.2")})
    manager = yaml.safe_load(written.read_text())["extensionManager"]
    assert [each["kind"] for each in manager["backendResources"]] == ["InferencePool"]
    assert manager["service"] == {"ip": {"address": "10.243.103.2", "port": 1063}}
    assert gateway._resolver(Annex(3, 1)).read_text() == "nameserver 10.243.3.1\n"
