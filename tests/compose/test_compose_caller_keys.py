"""The Secret of a gateway's callers: what is in it, when the policy names it, and what takes a key away."""

from dataclasses import replace

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceGateway
from modelplane.compose.caller_keys import keys_name
from modelplane.compose.contract import Local, Requirement
from tests.support.cluster_gateways import compose_gateway, gateway, observed_of, settled

LABELS = {"keys": "eu"}
AUTH = {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": LABELS}}}
KEYED = gateway(cluster_name=None, address="192.0.2.1", auth=AUTH, router={"replicas": 0})
FREE = gateway(cluster_name=None, address="192.0.2.1", router={"replicas": 0})
NAME = keys_name(decode(InferenceGateway, KEYED))
SYSTEM = "modelplane-system"
ADDRESSED = {"gateway": {"addresses": [{"value": "192.0.2.1"}]}}


def secret(name, labels=LABELS, **data):
    return {"metadata": {"name": name, "namespace": SYSTEM, "labels": labels}, "data": data}


ADA, BOB = secret("a", ada="MQ=="), secret("b", bob="Mg==")


def composed(secrets, observed=None, item=KEYED, **named):
    required = {} if secrets is None else {"secrets": tuple(secrets)}
    return compose_gateway(item, {**required, **{f"secret-{name}": found for name, found in named.items()}}, observed)


def serving(*secrets):
    """What is observed of a gateway whose callers have these keys."""
    _, seen = settled(lambda seen: composed(secrets, seen), ADDRESSED)
    return seen


def spec_of(found):
    return found.desired["callers"].target.manifest["spec"]


def refs(found):
    return [each["name"] for each in spec_of(found).get("apiKeyAuth", {}).get("credentialRefs", ())]


def data(found):
    return found.desired["caller-keys"].target.manifest["data"]


def told(found):
    (condition,) = found.conditions
    return condition.status.value, condition.reason.value


def test_all_keys_are_in_one_secret_that_says_where_they_are_from():
    found = composed([BOB, ADA])
    assert found.desired["caller-keys"].target == Local(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": NAME,
                "namespace": SYSTEM,
                "annotations": {"modelplane.ai/callers-from": "a b"},
            },
            "type": "Opaque",
            "data": {"ada": "MQ==", "bob": "Mg=="},
        }
    )


def test_it_is_named_once_it_is_there():
    first = composed([ADA])
    assert spec_of(first)["authorization"] == {"defaultAction": "Deny"}
    second = composed([ADA], observed_of(first))
    assert [found.desired["caller-keys"].ready for found in (first, second)] == [False, True]
    assert refs(second) == [NAME]


def test_what_a_user_does_to_a_secret_changes_no_name_in_the_policy():
    seen = serving(ADA, BOB)
    for secrets in ([ADA], [ADA, secret("b")], [ADA, secret("b", bob="MQ==")], [ADA, secret("b", bob="")]):
        found = composed(secrets, seen, b=())
        assert (refs(found), data(found)) == ([NAME], {"ada": "MQ=="})


def test_a_policy_of_before_that_names_the_users_secrets_stays_until_ours_is_there():
    seen = serving(ADA)
    manifest = seen["callers"].target.manifest
    keys = {**manifest["spec"]["apiKeyAuth"], "credentialRefs": [{"name": "a"}]}
    before = Local({**manifest, "spec": {**manifest["spec"], "apiKeyAuth": keys}})
    old = {"gateway": seen["gateway"], "callers": replace(seen["callers"], target=before)}
    first = composed([ADA], old)
    assert (refs(first), data(first)) == (["a"], {"ada": "MQ=="})
    assert refs(composed([ADA], observed_of(first))) == [NAME]


def test_it_stays_while_the_policy_names_it():
    first = composed(None, serving(ADA), FREE)
    assert ("callers" in first.desired, data(first)) == (False, {"ada": "MQ=="})
    assert "caller-keys" not in composed(None, observed_of(first), FREE).desired


def test_it_is_written_again_when_somebody_deleted_it():
    seen = serving(ADA)
    found = composed([ADA], {key: item for key, item in seen.items() if key != "caller-keys"})
    assert (refs(found), data(found)) == ([NAME], {"ada": "MQ=="})


def test_a_policy_that_somebody_edited_is_written_again_while_the_secret_is():
    seen = serving(ADA)
    manifest = seen["callers"].target.manifest
    keys = {name: value for name, value in manifest["spec"]["apiKeyAuth"].items() if name != "sanitize"}
    edited = Local({**manifest, "spec": {**manifest["spec"], "apiKeyAuth": keys}})
    found = composed([ADA], {"gateway": seen["gateway"], "callers": replace(seen["callers"], target=edited)})
    assert spec_of(found) == manifest["spec"]


def test_a_changed_key_is_written_at_once():
    changed = composed([secret("a", ada="Mw=="), BOB], serving(ADA, BOB))
    assert data(changed) == {"ada": "Mw==", "bob": "Mg=="}
    exchanged = composed([secret("a", bob="Mg=="), secret("b", ada="MQ==")], serving(ADA, BOB))
    assert data(exchanged) == {"ada": "MQ==", "bob": "Mg=="}


BOTH, ONE = {"ada": "MQ==", "bob": "Mg=="}, {"ada": "MQ=="}
UNREAD, RUNNING, INVALID = ("Unknown", "Unresolved"), ("True", "GatewayRunning"), ("False", "CallerKeysInvalid")
LISTS = {
    "not read": (None, {}, BOTH, UNREAD),
    "short, and the other not read by its name": ([ADA], {}, BOTH, UNREAD),
    "empty, and one not read by its name": ([], {"a": (ADA,)}, BOTH, UNREAD),
    "short, and the other is there": ([ADA], {"b": (BOB,)}, BOTH, RUNNING),
    "short, and the other is changed": ([ADA], {"b": (secret("b", bob="NA=="),)}, {**ONE, "bob": "NA=="}, RUNNING),
    "short, and the other cannot be read": ([ADA], {"b": ({},)}, BOTH, UNREAD),
    "without one that is gone": ([ADA], {"b": ()}, ONE, RUNNING),
    "without one whose label is gone": ([ADA], {"b": (secret("b", {}, bob="Mg=="),)}, ONE, RUNNING),
    "with one that cannot be read": ([ADA, {}], {}, BOTH, UNREAD),
    "whole, and with one that cannot be read": ([ADA, BOB, {}], {}, BOTH, RUNNING),
    "with one that was emptied": ([ADA, secret("b")], {}, ONE, INVALID),
    "without any that is there": ([], {"a": (), "b": ()}, {}, ("False", "CallerKeysMissing")),
}


@pytest.mark.parametrize(("secrets", "named", "keys", "condition"), LISTS.values(), ids=LISTS)
def test_a_key_leaves_when_its_secret_is_known_to_be_gone(secrets, named, keys, condition):
    found = composed(secrets, serving(ADA, BOB), **named)
    assert (data(found), told(found)) == (keys, condition)
    assert refs(found) == ([NAME] if keys else [])


def test_a_secret_that_the_list_lacks_is_required_by_its_name_until_it_is_not_in_force():
    seen = serving(ADA, BOB)
    wanted = Requirement("v1", "Secret", name="b", namespace=SYSTEM)
    assert "secret-b" not in composed([ADA, BOB], seen).requirements
    assert composed([ADA], seen).requirements["secret-b"] == wanted
    gone = composed([ADA], seen, b=())
    assert gone.requirements["secret-b"] == wanted
    assert "secret-b" not in composed([ADA], observed_of(gone, ADDRESSED)).requirements


def test_no_key_is_in_the_status_or_in_a_condition():
    hunter = "aHVudGVyMg=="
    found = composed([ADA, secret("b", ada=hunter, bob=hunter, carl=hunter)], serving(ADA))
    assert told(found) == INVALID
    assert found.conditions[0].message == "Secret b: ada is left out: Secret a has a caller of this name; and 1 more"
    shown = repr((found.status, found.conditions, found.ready, found.events, found.requirements))
    assert [text for text in (hunter, "hunter2") if text in shown] == []
