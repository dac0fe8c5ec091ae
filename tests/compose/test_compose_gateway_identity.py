"""What a fleet gateway shows to the gateways of clusters."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.api.names import make_name
from modelplane.compose.contract import ComposeRequest, Requirement
from modelplane.compose.inference_gateway import compose
from tests.compose.hop import observed, pem, requests

NAME = make_name("modelplane", "modelplane", "", "0")


def composed(seen=None, *, status=None, spec=None, certificates=True):
    """Until the requirements no longer change."""
    given = {"router": {"replicas": 0}, **({"mutualTLS": {}} if spec is None else spec)}
    resource = decode(InferenceGateway, {"metadata": {"name": "default"}, "spec": given, "status": status or {}})
    issued = {item["metadata"]["name"]: item for item in requests(seen or {})}
    wanted = {}
    for _ in range(2):
        required = {key: tuple(issued[name] for name in [one.name] if name in issued) for key, one in wanted.items()}
        found = compose(ComposeRequest(resource, seen or {}, required, embedded=not certificates))
        wanted = found.requirements
    return found


def test_the_certificate_comes_first_and_then_the_gateway_names_it(problems):
    first = composed()
    assert "tls" not in first.desired["gateway"].target.manifest["spec"]
    assert first.status.client_ca_certificate is None
    second = composed(observed(first.desired))
    gateway = second.desired["gateway"].target.manifest
    assert gateway["spec"]["tls"] == {
        "backend": {"clientCertificateRef": {"group": "", "kind": "Secret", "name": f"{NAME}-hop-client"}}
    }
    assert [found for each in second.desired.values() for found in problems(each.target.manifest)] == []
    assert second.status.client_ca_certificate == pem(f"{NAME}-hop-ca 1")
    assert all(each.ready for each in second.desired.values())


def test_the_ca_stays_while_it_cannot_be_read_and_both_are_trusted_after_a_renewal():
    known = {"clientCACertificate": pem(f"{NAME}-hop-ca 1")}
    assert composed({}, status=known).status.client_ca_certificate == pem(f"{NAME}-hop-ca 1")
    renewed = composed(observed(composed().desired, revision=2), status=known)
    assert renewed.status.client_ca_certificate == "\n".join(map(pem, (f"{NAME}-hop-ca 2", f"{NAME}-hop-ca 1")))


@pytest.mark.parametrize(
    ("issues", "certificates", "told"),
    [
        (True, True, "192.0.2.1"),
        (False, True, "192.0.2.1; spec.mutualTLS: cert-manager has not issued the certificate yet"),
        (
            True,
            False,
            "192.0.2.1; spec.mutualTLS: this control plane issues certificates itself, with modelplane up --mutual-tls",
        ),
    ],
)
def test_the_condition_says_what_it_waits_for(issues, certificates, told):
    found = composed(observed(composed().desired, issues=issues), certificates=certificates)
    assert found.conditions[0].message == told


def leaving(*schemes):
    """A gateway whose certificate is no longer asked for, while replicas are called by these."""
    replicas = [{"spec": {"url": f"{scheme}://192.0.2.1", "replica": {"name": "a"}}} for scheme in schemes]
    hosted = {"spec": {"url": "https://api.example"}}
    resource = decode(InferenceGateway, {"metadata": {"name": "default"}, "spec": {}})
    return compose(
        ComposeRequest(
            resource, observed(composed().desired), {"hop-endpoints": (hosted, *replicas)} if schemes else {}
        )
    )


@pytest.mark.parametrize(
    ("schemes", "stays"), [((), True), (("https",), True), (("http", "https"), True), (("http",), False)]
)
def test_the_certificate_stays_until_no_replica_is_called_with_it(schemes, stays):
    found = leaving(*schemes)
    assert ("hop-client" in found.desired, "hop-endpoints" in found.requirements) == (stays, True)


@pytest.mark.parametrize(("spec", "certificates"), [({}, True), ({"mutualTLS": {}}, False)])
def test_without_it_nothing_of_cert_manager_is_asked_for(spec, certificates):
    seen = observed(composed().desired)
    found = composed(seen, spec=spec, certificates=certificates, status={"clientCACertificate": pem("old")})
    assert (set(found.desired), found.status.client_ca_certificate) == ({"gateway"}, None)


def test_it_reads_what_cert_manager_issued_and_on_the_way_back_who_still_needs_it():
    seen = observed(composed().desired)
    issued = Requirement(
        "cert-manager.io/v1", "CertificateRequest", name=f"{NAME}-hop-ca-1", namespace="modelplane-system"
    )
    assert composed(seen).requirements == {"hop-ca-request": issued}
    assert leaving().requirements["hop-endpoints"] == Requirement("modelplane.ai/v1alpha1", "ModelEndpoint")
