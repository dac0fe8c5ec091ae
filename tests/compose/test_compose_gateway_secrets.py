"""Which Secrets a gateway on a cluster names, and when copies of them come and go."""

from dataclasses import replace

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.contract import CopiedFrom
from modelplane.compose.gateway_secrets import copy_name
from tests.support.cluster_gateways import cluster, compose_gateway, gateway, observed_of, settled

AUTH = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": {"keys": "eu"}}}}
KEYED = gateway(auth=AUTH, router={"replicas": 0})
SYSTEM = "modelplane-system"
KEY, CERTIFICATE = "cluster/keys-{}", "cluster/certificate-{}"


def named(name):
    return copy_name(decode(InferenceGateway, KEYED), name)


def secret(name, version="1", **data):
    return {"metadata": {"name": name, "namespace": SYSTEM, "resourceVersion": version}, "data": data}


ADA, BOB = secret("a", ada="MQ=="), secret("b", "2", bob="Mg==")


def keyed(secrets, observed=None, item=KEYED):
    required = {"cluster": (cluster(),), **({} if secrets is None else {"secrets": tuple(secrets)})}
    return compose_gateway(item, required, observed)


def names_in(found):
    spec = found.desired["cluster/callers"].target.manifest["spec"]
    return [each["name"] for each in spec["apiKeyAuth"]["credentialRefs"]] if "apiKeyAuth" in spec else None


def copies_in(found):
    return {key.rpartition("/")[2] for key in found.desired if "/keys-" in key or "/certificate-" in key}


def test_a_copy_has_no_values_and_says_where_they_are():
    target = keyed([ADA]).desired[KEY.format("a")].target
    assert (target.cluster, target.shared) == ("fra-a", False)
    assert target.copied_from == CopiedFrom("v1", "Secret", "a", SYSTEM, version="1")
    assert target.manifest == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": named("a"),
            "namespace": SYSTEM,
            "annotations": {"modelplane.ai/copied-from": "modelplane-system/a"},
        },
        "type": "Opaque",
    }


def test_keys_are_named_once_they_are_filled_and_copies_leave_once_they_are_not_named():
    first = keyed([ADA])
    assert (copies_in(first), names_in(first)) == ({"keys-a"}, None)
    assert first.desired["cluster/callers"].target.manifest["spec"]["authorization"] == {"defaultAction": "Deny"}
    second = keyed([ADA], observed_of(first))
    assert names_in(second) == [named("a")]
    third = keyed([ADA, BOB], observed_of(second))
    assert (copies_in(third), names_in(third)) == ({"keys-a", "keys-b"}, [named("a")])
    fourth = keyed([ADA, BOB], observed_of(third))
    assert names_in(fourth) == [named("a"), named("b")]
    fifth = keyed([BOB], observed_of(fourth))
    assert (copies_in(fifth), names_in(fifth)) == ({"keys-a", "keys-b"}, [named("b")])
    assert copies_in(keyed([BOB], observed_of(fifth))) == {"keys-b"}


def unready(seen, *keys):
    return {key: replace(item, ready=item.ready and key not in keys) for key, item in seen.items()}


def test_a_cluster_that_does_not_answer_loses_no_key():
    _, seen = settled(lambda seen: keyed([ADA, BOB], seen))
    found = keyed([ADA, BOB], unready(seen, *seen))
    assert names_in(found) == [named("a"), named("b")]


def test_a_policy_that_is_not_shown_locks_nobody_out():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    hidden = replace(seen["cluster/callers"], target=replace(seen["cluster/callers"].target, manifest={}))
    found = keyed([ADA], {**unready(seen, KEY.format("a")), "cluster/callers": hidden})
    assert found.desired["cluster/callers"].target is hidden.target


def test_copies_stay_while_the_policy_cannot_be_read():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    hidden = replace(seen["cluster/callers"], target=replace(seen["cluster/callers"].target, manifest={}))
    assert copies_in(keyed([], {**seen, "cluster/callers": hidden})) == {"keys-a"}


@pytest.mark.parametrize("secrets", [None, (), (ADA,)], ids=["not read", "an empty list", "as they were"])
def test_copies_stay_while_the_policy_names_them(secrets):
    _, seen = settled(lambda seen: keyed([ADA], seen))
    found = keyed(secrets, seen)
    assert copies_in(found) == {"keys-a"}
    assert (names_in(found) is None) is (secrets == ())


def test_copies_of_keys_leave_after_the_policy_of_a_gateway_that_wants_none_any_more():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    free = gateway(router={"replicas": 0})
    found = keyed(None, seen, free)
    assert ("cluster/callers" in found.desired, copies_in(found)) == (False, {"keys-a"})
    assert copies_in(keyed(None, observed_of(found), free)) == set()


FRONT = secret("front", "8", **{"tls.crt": "Yw==", "tls.key": "aw=="})
BACK = secret("back", "9", **{"tls.crt": "Yw==", "tls.key": "aw=="})


def secured(certificates, observed=None, names=("front",)):
    item = gateway(tls={"certificateRefs": [{"name": name} for name in names]}, router={"replicas": 0})
    required = {"cluster": (cluster(),), **{f"certificate-{name}": found for name, found in certificates.items()}}
    return compose_gateway(item, required, observed)


def refs(found):
    (listener,) = found.desired["cluster/gateway"].target.manifest["spec"]["listeners"]
    return [each["name"] for each in listener["tls"]["certificateRefs"]]


def test_a_certificate_is_a_secret_of_its_type_from_the_start():
    """Kubernetes refuses one without its keys, and Envoy Gateway one of another type."""
    target = secured({"front": (FRONT,)}).desired[CERTIFICATE.format("front")].target
    assert target.manifest["type"] == "kubernetes.io/tls"
    assert target.manifest["data"] == {"tls.crt": "", "tls.key": ""}
    assert target.copied_from == CopiedFrom("v1", "Secret", "front", SYSTEM, version="8")


def test_a_further_certificate_is_named_once_it_is_filled():
    both = {"front": (FRONT,), "back": (BACK,)}
    first = secured({"front": (FRONT,)})
    assert refs(first) == [named("front")]
    second = secured(both, observed_of(first), ("front", "back"))
    assert refs(second) == [named("front")]
    third = secured(both, observed_of(second), ("front", "back"))
    assert refs(third) == [named("front"), named("back")]
    fourth = secured(both, observed_of(third), ("back",))
    assert (refs(fourth), copies_in(fourth)) == ([named("back")], {"certificate-front", "certificate-back"})
    assert copies_in(secured(both, observed_of(fourth), ("back",))) == {"certificate-back"}


@pytest.mark.parametrize(
    ("found", "is_missing"),
    [(None, False), ((), True), ((secret("front", **{"tls.crt": "Yw=="}),), True), ((FRONT,), False)],
    ids=["not read", "absent", "without its key", "there"],
)
def test_a_certificate_that_is_missing_is_named_and_its_copy_stays(found, is_missing):
    _, seen = settled(lambda seen: secured({"front": (FRONT,)}, seen))
    made = secured({} if found is None else {"front": found}, seen)
    message = "spec.tls: no Secret front in modelplane-system with the keys tls.crt and tls.key"
    assert (made.conditions[0].message == message) is is_missing
    assert copies_in(made) == {"certificate-front"}


def test_a_gateway_beside_its_secrets_copies_none():
    beside = gateway(cluster_name=None, auth=AUTH, tls={"certificateRefs": [{"name": "front"}]})
    found = compose_gateway(beside, {"secrets": (ADA,)})
    assert [key for key in found.desired if key.startswith(("keys-", "certificate-"))] == []
    assert found.desired["callers"].target.manifest["spec"]["apiKeyAuth"]["credentialRefs"] == [{"name": "a"}]
    assert "certificate-front" not in found.requirements
