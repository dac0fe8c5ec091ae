"""The static plan: which endpoints are in which tier, with which share, and what requests to them need."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode
from modelplane.api.models import ListedModels, ModelEndpoint, ModelService
from modelplane.compose.endpoint_target import CredentialRef
from modelplane.compose.observed_route import ReadEndpoint
from modelplane.compose.service_plan import (
    MAX_WEIGHT,
    PlanEndpoint,
    PlanOverflow,
    PlanTier,
    PlanTimeouts,
    ServicePlan,
    exact_weights,
    model_names,
    plan_document,
    read_plan,
    service_plan,
)


def service(*groups, **spec):
    metadata = {"name": "chat", "namespace": "team"}
    return decode(ModelService, {"metadata": metadata, "spec": {"endpoints": list(groups), **spec}})


def group(app, **fields):
    return {"selector": {"matchLabels": {"app": app}}, **fields}


def endpoint(name, app, spec=None, *, ready=True, reason="", message=""):
    metadata = {"name": name, "namespace": "team", "labels": {"app": app}}
    found = decode(ModelEndpoint, {"metadata": metadata, "spec": spec or {"url": "http://192.0.2.9:8080"}})
    return ReadEndpoint(found, ready, reason=reason, message=message)


def replica(name, app, cluster="east"):
    return endpoint(name, app, {"url": "http://192.0.2.9", "replica": {"name": name, "clusterName": cluster}})


PROVIDER = {
    "origin": "https://api.acme-llm.example",
    "api": {"prefix": "/openai/v1"},
    "model": "acme/large-3",
    "credential": {"method": "APIKey", "apiKey": {"secretRef": {"name": "acme-key", "key": "token"}}},
}


def test_the_whole_plan_of_a_service_with_a_provider_behind_the_fleet():
    asked = service(
        group("own", name="main", overflow={"inFlightPerEndpoint": 8}),
        group("hosted", name="backup", priority=7),
        aliases=["chat"],
        timeouts={"request": "10m", "idle": "45s"},
    )
    found = service_plan(
        asked,
        [
            endpoint("acme", "hosted", PROVIDER),
            replica("a", "own"),
            endpoint("b", "own", ready=False, reason="RoutePending", message="not yet"),
            endpoint("stranger", "other"),
        ],
    )
    main, backup = PlanOverflow(8), None
    own = {"group": "main", "overflow": main, "labels": {"app": "own"}, "secure": False, "address": "192.0.2.9"}
    assert found == ServicePlan(
        "team",
        "chat",
        aliases=("chat",),
        timeouts=PlanTimeouts(600.0, 45.0),
        tiers=(
            PlanTier(
                0,
                (
                    PlanEndpoint("team/a", weight=1, port=80, host=None, replica="team/a", cluster="east", **own),
                    PlanEndpoint(
                        "team/b",
                        weight=0,
                        port=8080,
                        host="192.0.2.9:8080",
                        ready=False,
                        reason="RoutePending",
                        message="not yet",
                        **own,
                    ),
                ),
            ),
            PlanTier(
                7,
                (
                    PlanEndpoint(
                        "team/acme",
                        "backup",
                        1,
                        secure=True,
                        address="api.acme-llm.example",
                        port=443,
                        host="api.acme-llm.example",
                        prefix="/openai/v1",
                        model="acme/large-3",
                        credential=CredentialRef("acme-key", "token"),
                        labels={"app": "hosted"},
                        overflow=backup,
                    ),
                ),
            ),
        ),
    )
    assert read_plan(plan_document(found)) == found


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ()),
        ({"origin": "https://api.acme-llm.example", "addresses": ("8.8.8.8",)}, ("8.8.8.8",)),
        ({"origin": "https://other.example", "addresses": ("8.8.8.8",)}, ()),
    ],
)
def test_an_endpoint_is_called_at_the_addresses_of_its_own_host(status, expected):
    made = replace(endpoint("acme", "hosted", PROVIDER), **status)
    (found,) = service_plan(service(group("hosted")), [made]).endpoints
    assert (found.addresses, found.targets, found.ready) == (expected, expected, True)
    (number,) = service_plan(service(group("own")), [replace(replica("a", "own"), **status)]).endpoints
    assert (number.addresses, number.targets) == ((), ("192.0.2.9",))


def test_seventy_twenty_ten_over_two_regions_and_a_provider():
    asked = service(group("us", weight=70), group("eu", weight=20), group("hosted", weight=10))
    found = service_plan(asked, [replica("u1", "us"), replica("u2", "us"), replica("e", "eu"), endpoint("h", "hosted")])
    assert {each.name: each.weight for each in found.endpoints} == {"u1": 7, "u2": 7, "e": 4, "h": 2}


def test_a_tier_that_cannot_answer_does_not_count_and_gaps_in_priorities_do_no_harm():
    """Priorities with gaps left no level 0 in a predecessor."""
    found = service_plan(
        service(group("a", priority=3), group("b", priority=9)), [endpoint("a", "a", ready=False), endpoint("b", "b")]
    )
    assert [tier.priority for tier in found.tiers] == [3, 9]
    assert [tier.priority for tier in found.serving] == [9]


def test_an_endpoint_belongs_to_the_first_group_that_selects_it():
    found = service_plan(service(group("a", name="x"), group("a", name="y", priority=1)), [endpoint("one", "a")])
    assert [(tier.priority, [each.group for each in tier.endpoints]) for tier in found.tiers] == [(0, ["x"])]


def test_a_group_without_a_name_is_called_by_its_place():
    found = service_plan(service(group("none"), group("a")), [endpoint("one", "a")])
    assert found.endpoints[0].group == "group-1"


def test_a_weight_of_0_gets_nothing_and_takes_nothing_away():
    """Weight 0 dropped the backend of a predecessor."""
    found = service_plan(service(group("a", weight=0), group("b", weight=5)), [endpoint("a", "a"), endpoint("b", "b")])
    assert [(each.name, each.weight, each.ready, each.serves) for each in found.endpoints] == [
        ("a", 0, True, False),
        ("b", 1, True, True),
    ]


@given(st.lists(st.tuples(st.integers(0, 1_000_000), st.integers(0, 40)), max_size=32))
def test_weights_are_in_range_and_nobody_with_a_share_loses_it(groups):
    found = exact_weights(groups)
    assert all(0 <= each <= MAX_WEIGHT for each in found)
    assert [each > 0 for each in found] == [weight > 0 and size > 0 for weight, size in groups]


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 6)), min_size=1, max_size=4))
def test_small_weights_keep_the_shares_exact(groups):
    found = exact_weights(groups)
    sums = [each * size for each, (_, size) in zip(found, groups, strict=True)]
    total = sum(weight for weight, _ in groups)
    assert [each * total for each in sums] == [weight * sum(sums) for weight, _ in groups]


@pytest.mark.parametrize(
    ("groups", "weights"),
    [
        ([(400_000, 1), (800_000, 1)], [1, 2]),
        ([(999_999, 1), (1_000_000, 1)], [999_999, 1_000_000]),
        ([(1_000_000, 1), (1, 3)], [1_000_000, 1]),
        ([(1_000_001, 1), (1, 1)], [500_000, 1]),
    ],
)
def test_large_weights_are_as_exact_as_the_range_allows(groups, weights):
    assert exact_weights(groups) == weights


def test_a_name_leads_to_its_service_and_an_alias_to_the_older_one():
    own = ServicePlan("team", "chat", ("gpt", "shared"), "2026-01-02T00:00:00Z")
    other = ServicePlan("mallory", "trap", ("team/chat", "shared"), "2026-01-01T00:00:00Z")
    found = model_names([own, other])
    assert {name: plan.key for name, plan in found.items()} == {
        "team/chat": "team/chat",
        "mallory/trap": "mallory/trap",
        "gpt": "team/chat",
        "shared": "mallory/trap",
    }


@pytest.mark.parametrize("document", [b"", b"[]", b'{"plan":{"namespace":"a","name":"b"},"version":2}', b'{"plan":{}}'])
def test_what_is_no_plan_is_refused(document):
    with pytest.raises(msgspec.DecodeError):
        read_plan(document)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=12),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=6),
)
def test_every_endpoint_that_is_selected_is_in_one_tier_and_only_those_that_are_ready_have_a_share(items, groups):
    asked = service(*(group(app, weight=weight, priority=priority) for app, weight, priority in groups))
    given_ = [
        ReadEndpoint(endpoint(f"e{n}", app).endpoint, ready, kept and not ready)
        for n, (app, ready, kept) in enumerate(items)
    ]
    found = service_plan(asked, given_)
    selected = {app for app, _, _ in groups}
    assert sorted(each.name for each in found.endpoints) == sorted(
        f"e{n}" for n, (app, _, _) in enumerate(items) if app in selected
    )
    assert [tier.priority for tier in found.tiers] == sorted({tier.priority for tier in found.tiers})
    assert all(each.ready or not each.weight for each in found.endpoints)
    assert all(bool(each.reason) != each.ready for each in found.endpoints)
    assert service_plan(asked, reversed(given_)) == found
    assert read_plan(plan_document(found)) == found


def listing(*names, total=None, url="https://api.acme-llm.example/openai/v1/models"):
    return ListedModels(url=url, names=names, total=len(names) if total is None else total)


@pytest.mark.parametrize(
    ("models", "ready", "listed", "reason"),
    [
        pytest.param(None, True, (), "", id="not read"),
        pytest.param(listing("acme/large-3", "b"), True, ("acme/large-3", "b"), "", id="it has the model"),
        pytest.param(listing("a", "b"), False, ("a", "b"), "ModelNotListed", id="it does not"),
        pytest.param(listing("a", total=900), True, (), "", id="more than are kept"),
        pytest.param(listing("a", url="https://old.example/models"), True, (), "", id="of another address"),
    ],
)
def test_a_provider_that_does_not_list_the_model_gets_nothing(models, ready, listed, reason):
    found = replace(endpoint("z", "hosted", PROVIDER), models=models)
    (planned,) = service_plan(service(group("hosted")), [found]).endpoints
    assert (planned.ready, planned.models, planned.reason) == (ready, listed, reason)
    lists = "https://api.acme-llm.example lists 2 models, and not acme/large-3"
    assert planned.message == (lists if reason else "")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ("NotReady", "the endpoint is not ready")),
        ({"reason": "Denied", "message": "403"}, ("Denied", "403")),
    ],
    ids=["no words", "its own words"],
)
def test_an_endpoint_that_is_not_ready_says_why(given, told):
    (planned,) = service_plan(service(group("a")), [endpoint("x", "a", ready=False, **given)]).endpoints
    assert (planned.ready, planned.reason, planned.message) == (False, *told)


def test_an_address_that_is_no_url_gets_nothing():
    (planned,) = service_plan(service(group("a")), [endpoint("x", "a", {"url": "ftp://192.0.2.9"})]).endpoints
    assert planned == PlanEndpoint(
        "team/x",
        "group-0",
        0,
        secure=False,
        address="",
        port=0,
        host=None,
        prefix="",
        labels={"app": "a"},
        ready=False,
        reason="Invalid",
        message="the address is not an http or https URL",
    )
