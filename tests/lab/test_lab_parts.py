"""Certificates, hardware, fleets, manifests: what the lab makes of what it is given."""

import ssl
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from lab.certificates import new_authority, service_account_keys
from lab.client import Access, condition
from lab.components import KWOK
from lab.fleet import FleetError, read_fleet
from lab.hardware import hardware
from lab.manifests import Sources, parse
from lab.oracles.dra_cases import make_case
from lab.oracles.finding import Difference, Finding
from lab.oracles.golden import changed
from lab.workload import addressed, bound_roles
from modelplane.k8s.dra import decode_claims, decode_classes, decode_slices
from modelplane.testing.cluster import gpu_pool


def test_a_client_certificate_names_user_and_groups():
    pair = new_authority("ca").client("admin", "system:masters")
    subject = x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string()
    assert subject == "CN=admin,O=system:masters"


def test_a_server_certificate_is_trusted_through_its_authority(tmp_path):
    authority = new_authority("ca")
    certificate, key = authority.server("api").write(tmp_path)
    assert key.stat().st_mode & 0o777 == 0o600
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    leaf = x509.load_pem_x509_certificate(certificate.read_bytes())
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pair.certificate))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)


def test_a_kubeconfig_holds_everything():
    authority = new_authority("ca")
    access = Access("https://127.0.0.1:1", authority.pair.certificate, authority.client("admin"))
    config = yaml.safe_load(access.kubeconfig())
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    token = yaml.safe_load(Access("https://x", b"ca", token="t").kubeconfig())
    assert token["users"][0]["user"] == {"token": "t"}
    assert access.tls().verify_mode is ssl.CERT_REQUIRED


def test_service_accounts_have_two_halves():
    pair = service_account_keys()
    assert pair.certificate.startswith(b"-----BEGIN PUBLIC KEY")
    assert b"PRIVATE" in pair.key


def test_hardware_speaks_the_driver_s_words():
    made = hardware([gpu_pool("h200", 2, gpus=4)], system_nodes=1)
    kinds = [(item["kind"], item["metadata"]["name"]) for item in made]
    assert kinds == [
        ("DeviceClass", "gpu.nvidia.com"),
        ("Node", "system-0"),
        ("Node", "h200-0"),
        ("ResourceSlice", "h200-0-gpu.nvidia.com"),
        ("Node", "h200-1"),
        ("ResourceSlice", "h200-1-gpu.nvidia.com"),
    ]
    devices = made[3]["spec"]["devices"]
    names = {name for device in devices for name in device["attributes"]}
    assert {"type", "uuid", "driverVersion", "resource.kubernetes.io/pcieRoot", "architecture"} <= names
    serials = {d["attributes"]["uuid"]["string"] for item in made if item["kind"] == "ResourceSlice"
               for d in item["spec"]["devices"]}  # fmt: skip
    assert len(serials) == 8
    assert made[2]["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert made[1]["spec"] == {}


def test_a_fleet_has_a_site_for_each_cluster():
    sites = read_fleet(Path("examples/quickstart"))
    assert [(site.name, site.pod_range, site.base_port) for site in sites] == [
        ("east", "10.245.0.0/16", 22000),
        ("west", "10.246.0.0/16", 22100),
    ]
    assert [(pool.name, pool.nodes) for pool in sites[0].pools] == [("h200", 2)]


def test_a_folder_without_clusters_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: Other\n")
    with pytest.raises(FleetError, match="holds no InferenceCluster"):
        read_fleet(tmp_path)


def test_manifests_of_a_module_are_parsed_once(tmp_path):
    module = tmp_path / "module"
    (module / "crds").mkdir(parents=True)
    (module / "crds" / "b.yaml").write_text("kind: B\n---\n# nothing\n---\nkind: C\n")
    (module / "crds" / "a.yaml").write_text("kind: A\n")
    sources = Sources({KWOK: module}, tmp_path / "cache")
    assert [item["kind"] for item in sources.read(KWOK, "crds")] == ["A", "B", "C"]
    (module / "crds" / "a.yaml").unlink()
    assert [item["kind"] for item in sources.read(KWOK, "crds")] == ["A", "B", "C"]


def test_definitions_lose_their_prose_and_nothing_else(tmp_path):
    (tmp_path / "a.yaml").write_text("""
kind: CustomResourceDefinition
spec: {schema: {description: words, properties: {description: {type: string, description: words}}}}
---
kind: Other
spec: {description: words}
""")
    assert Sources({KWOK: tmp_path}, tmp_path / "cache").read(KWOK, "a.yaml") == [
        {"kind": "CustomResourceDefinition", "spec": {"schema": {"properties": {"description": {"type": "string"}}}}},
        {"kind": "Other", "spec": {"description": "words"}},
    ]


def test_webhooks_are_reached_by_address_and_roles_bound_to_users():
    hook = parse("""
kind: MutatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- {name: mpod.kb.io, clientConfig: {service: {name: s, namespace: n, path: /pods}}}
- {name: other.kb.io, clientConfig: {service: {name: s, namespace: n, path: /others}}}
""")
    (made,) = addressed(hook, 99, b"ca")
    assert [each["clientConfig"]["url"] for each in made["webhooks"]] == [
        "https://127.0.0.1:99/pods",
        "https://127.0.0.1:99/others",
    ]
    assert ["objectSelector" in each for each in made["webhooks"]] == [True, False]
    role, binding = bound_roles(
        [{"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}, {"kind": "Role"}], "u"
    )
    assert role["metadata"]["name"] == binding["roleRef"]["name"] == "lab:u:r"
    assert binding["subjects"][0]["name"] == "u"


@pytest.mark.parametrize(
    ("sent", "came", "expected"),
    [
        ({"a": 1}, {"a": 1, "added": 2}, []),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [".a.b[1] was sent as 2 and came back as 3"]),
        ({"a": [1]}, {"a": [1, 2]}, [".a was sent as [1] and came back as [1, 2]"]),
        ({"cpu": 32}, {"cpu": "32"}, []),
        ({"a": {}}, {}, []),
        ({"a": {"b": 1}}, {}, [".a was sent as {'b': 1} and came back as None"]),
    ],
)
def test_what_a_server_changed_is_found(sent, came, expected):
    assert list(changed(sent, came)) == expected


def test_cases_are_the_same_for_the_same_seed_and_can_be_read():
    assert make_case(1, 7) == make_case(1, 7)
    assert make_case(1, 7) != make_case(2, 7)
    for number in range(50):
        case = make_case(3, number)
        assert decode_slices(case.slices)
        assert decode_classes(case.classes)
        assert all(decode_claims(pod) for pod in case.pods)


def test_a_finding_agrees_when_every_difference_is_explained():
    known, new = Difference("a", "x", "because"), Difference("b", "y")
    assert Finding("o", 2, (known,)).agrees
    assert not Finding("o", 2, (known, new)).agrees
    assert Finding("o", 2, (known, new)).lines() == [
        "o: 2 compared, 2 differ, 1 of them explained",
        "  a: x (known: because)",
        "  b: y",
    ]


def test_conditions_are_read_by_type():
    item = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    assert [condition(item, "Ready"), condition(item, "Other"), condition(None, "Ready")] == ["False", "", ""]
