"""Which Secrets a gateway on a cluster names, and when copies of them come and go."""

from dataclasses import replace

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.caller_keys import keys_name
from modelplane.compose.contract import CopiedFrom, Local
from modelplane.compose.gateway_secrets import copy_name
from tests.support.cluster_gateways import cluster, compose_gateway, gateway, observed_of, settled

AUTH = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": {"keys": "eu"}}}}
KEYED = gateway(auth=AUTH, router={"replicas": 0})
SYSTEM = "modelplane-system"
KEY, CERTIFICATE = "cluster/keys-{}", "cluster/certificate-{}"


def named(name):
    return copy_name(decode(InferenceGateway, KEYED), name)


CHECKED = keys_name(decode(InferenceGateway, KEYED))
COPY = KEY.format(CHECKED)
"""The key of the copy of the callers' Secret."""


def secret(name, version="1", **data):
    return {"metadata": {"name": name, "namespace": SYSTEM, "resourceVersion": version}, "data": data}


ADA, BOB = secret("a", ada="MQ=="), secret("b", "2", bob="Mg==")


def keyed(secrets, observed=None, item=KEYED, **more):
    required = {"cluster": (cluster(),), **({} if secrets is None else {"secrets": tuple(secrets)}), **more}
    return compose_gateway(item, required, observed)


def names_in(found):
    spec = found.desired["cluster/callers"].target.manifest["spec"]
    return [each["name"] for each in spec["apiKeyAuth"]["credentialRefs"]] if "apiKeyAuth" in spec else None


def copies_in(found):
    return {key.rpartition("/")[2] for key in found.desired if "/keys-" in key or "/certificate-" in key}


def data_in(found):
    return found.desired["caller-keys"].target.manifest["data"]


def test_a_copy_has_no_values_and_says_where_they_are():
    seen = observed_of(keyed([ADA]))
    written = seen["caller-keys"].target.manifest
    stored = {**written, "metadata": {**written["metadata"], "resourceVersion": "7"}}
    seen["caller-keys"] = replace(seen["caller-keys"], target=Local(stored))
    target = keyed([ADA], seen).desired[COPY].target
    assert (target.cluster, target.shared) == ("fra-a", False)
    assert target.copied_from == CopiedFrom("v1", "Secret", CHECKED, SYSTEM, version="7")
    assert target.manifest == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": named(CHECKED),
            "namespace": SYSTEM,
            "annotations": {"modelplane.ai/copied-from": f"modelplane-system/{CHECKED}"},
        },
        "type": "Opaque",
    }


def test_keys_are_named_once_they_are_filled_and_the_copy_leaves_once_it_is_not_named():
    first = keyed([ADA])
    assert (copies_in(first), names_in(first)) == (set(), None)
    assert first.desired["cluster/callers"].target.manifest["spec"]["authorization"] == {"defaultAction": "Deny"}
    second = keyed([ADA], observed_of(first))
    assert (copies_in(second), names_in(second)) == ({f"keys-{CHECKED}"}, None)
    third = keyed([ADA], observed_of(second))
    assert names_in(third) == [named(CHECKED)]
    more = keyed([ADA, BOB], observed_of(third))
    assert (names_in(more), data_in(more)) == ([named(CHECKED)], {"ada": "MQ==", "bob": "Mg=="})
    none = keyed([], observed_of(more), **{"secret-a": (), "secret-b": ()})
    assert (copies_in(none), names_in(none), data_in(none)) == ({f"keys-{CHECKED}"}, None, {})
    assert copies_in(keyed([], observed_of(none))) == set()


def test_copies_of_each_secret_as_they_were_made_before_leave_when_the_policy_names_ours():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    policy = seen["cluster/callers"].target.manifest
    policy["spec"]["apiKeyAuth"]["credentialRefs"] = [{"name": named("a")}]
    before = {key: item for key, item in seen.items() if key not in {COPY, "caller-keys"}}
    before[KEY.format("a")] = replace(seen[COPY])
    first = keyed([ADA], before)
    assert (copies_in(first), names_in(first)) == ({"keys-a"}, [named("a")])
    second = keyed([ADA], observed_of(first))
    assert (copies_in(second), names_in(second)) == ({"keys-a", f"keys-{CHECKED}"}, [named("a")])
    third = keyed([ADA], observed_of(second))
    assert (copies_in(third), names_in(third)) == ({"keys-a", f"keys-{CHECKED}"}, [named(CHECKED)])
    assert copies_in(keyed([ADA], observed_of(third))) == {f"keys-{CHECKED}"}


def unready(seen, *keys):
    return {key: replace(item, ready=item.ready and key not in keys) for key, item in seen.items()}


def test_a_cluster_that_does_not_answer_loses_no_key():
    _, seen = settled(lambda seen: keyed([ADA, BOB], seen))
    found = keyed([ADA, BOB], unready(seen, *seen))
    assert names_in(found) == [named(CHECKED)]


def test_a_policy_that_somebody_edited_is_written_again_while_the_cluster_does_not_answer():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    shown = seen["cluster/callers"]
    keys = {name: value for name, value in shown.manifest["spec"]["apiKeyAuth"].items() if name != "sanitize"}
    edited = {**shown.manifest, "spec": {**shown.manifest["spec"], "apiKeyAuth": keys}}
    edited_seen = replace(shown, target=replace(shown.target, manifest=edited))
    found = keyed([ADA], {**unready(seen, COPY), "cluster/callers": edited_seen})
    assert found.desired["cluster/callers"].target.manifest["spec"] == shown.manifest["spec"]


def test_a_policy_that_is_not_shown_locks_nobody_out():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    hidden = replace(seen["cluster/callers"], target=replace(seen["cluster/callers"].target, manifest={}))
    found = keyed([ADA], {**unready(seen, COPY), "cluster/callers": hidden})
    assert found.desired["cluster/callers"].target is hidden.target


def test_copies_stay_while_the_policy_cannot_be_read():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    hidden = replace(seen["cluster/callers"], target=replace(seen["cluster/callers"].target, manifest={}))
    found = keyed([], {**seen, "cluster/callers": hidden}, **{"secret-a": ()})
    assert copies_in(found) == {f"keys-{CHECKED}"}


@pytest.mark.parametrize("secrets", [None, (), (ADA,)], ids=["not read", "an empty list", "as they were"])
def test_copies_stay_while_the_policy_names_them(secrets):
    _, seen = settled(lambda seen: keyed([ADA], seen))
    found = keyed(secrets, seen)
    assert (copies_in(found), names_in(found)) == ({f"keys-{CHECKED}"}, [named(CHECKED)])
    assert data_in(found) == {"ada": "MQ=="}


def test_copies_of_keys_leave_after_the_policy_of_a_gateway_that_wants_none_any_more():
    _, seen = settled(lambda seen: keyed([ADA], seen))
    free = gateway(router={"replicas": 0})
    found = keyed(None, seen, free)
    assert ("cluster/callers" in found.desired, copies_in(found)) == (False, {f"keys-{CHECKED}"})
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


@pytest.mark.parametrize(
    ("is_shown", "copies"), [(True, {"certificate-front", "certificate-back"}), (False, {"certificate-back"})]
)
def test_copies_of_certificates_stay_while_the_gateway_cannot_be_read(is_shown, copies):
    both = {"front": (FRONT,), "back": (BACK,)}
    _, seen = settled(lambda seen: secured(both, seen, ("front", "back")))
    shown = seen.pop("cluster/gateway")
    hidden = {"cluster/gateway": replace(shown, target=replace(shown.target, manifest={}))} if is_shown else {}
    assert copies_in(secured(both, {**seen, **hidden}, ("back",))) == copies


def test_a_gateway_beside_its_secrets_copies_none():
    beside = gateway(cluster_name=None, auth=AUTH, tls={"certificateRefs": [{"name": "front"}]})
    found = compose_gateway(beside, {"secrets": (ADA,)})
    assert [key for key in found.desired if key.startswith(("keys-", "certificate-"))] == []
    assert "certificate-front" not in found.requirements
