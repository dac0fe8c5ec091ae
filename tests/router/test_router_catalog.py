from modelplane.router.catalog import ServiceCatalog
from tests.router.conftest import endpoint, overflow, plan


def catalog(*plans):
    made = ServiceCatalog()
    made.replace(plans)
    return made


def test_names_aliases_and_adapters_lead_to_a_service():
    found = catalog(plan([endpoint("a")], aliases=("gpt-x",)))
    service = found.services["team/chat"]
    named = {
        name: found.named(name) for name in ("team/chat", "gpt-x", "team/chat:legal", "gpt-x:legal", "other", ":x")
    }
    assert {name: each and (each.service is service, each.adapter) for name, each in named.items()} == {
        "team/chat": (True, ""),
        "gpt-x": (True, ""),
        "team/chat:legal": (True, "legal"),
        "gpt-x:legal": (True, "legal"),
        "other": None,
        ":x": None,
    }


def test_an_adapter_that_a_replica_lists_is_a_model_name():
    found = catalog(plan([endpoint("a")]))
    found.learned(found.endpoints["team/a"], ("engine", "legal"))
    assert found.named("legal").adapter == "legal"
    assert [name for name, _ in found.names()] == ["legal", "team/chat"]
    assert found.named("engine") is None


def test_what_is_learned_of_an_endpoint_outlives_a_new_plan():
    found = catalog(plan([endpoint("a"), endpoint("b")]))
    before = found.endpoints["team/a"]
    before.health.failed(1.0, "x", refused=True)
    found.replace([plan([endpoint("a", weight=5)])])
    assert found.endpoints["team/a"] is before
    assert list(found.endpoints) == ["team/a"]
    assert not found.endpoints["team/a"].health.admits(1.5)


def test_an_endpoint_at_another_address_is_another_one():
    found = catalog(plan([endpoint("a")]))
    before = found.endpoints["team/a"]
    found.replace([plan([endpoint("a", port=81)])])
    assert found.endpoints["team/a"] is not before


def test_a_service_knows_who_serves_and_in_which_tier():
    tiers = ([endpoint("a", ready=False, weight=0)], [endpoint("b"), endpoint("c")])
    service = catalog(plan(*tiers)).services["team/chat"]
    assert ([member.key for member in service.serving], service.first_priority) == (["team/b", "team/c"], 1)
    first, second, third = service.candidates
    assert [member.key for member in service.members_of(service.candidates)] == ["team/a", "team/b", "team/c"]
    assert [member.key for member in service.members_of((third, first))] == ["team/c", "team/a"]
    assert service.members[second].path.endswith("/team/chat/b")


def test_services_that_share_an_endpoint_share_what_is_in_flight():
    found = catalog(plan([endpoint("a")]), plan([endpoint("a")], name="other"))
    (one,), (two,) = (found.services[key].candidates for key in ("team/chat", "team/other"))
    assert one is two


def test_those_who_listen_hear_of_the_endpoints():
    heard = []
    found = ServiceCatalog()
    found.on_change = lambda endpoints: heard.append([each.name for each in endpoints])
    found.replace([plan([endpoint("a"), endpoint("b")])])
    found.replace([])
    assert heard == [["team/a", "team/b"], []]


def test_a_full_endpoint_takes_requests_again_below_its_limit():
    found = catalog(plan([endpoint("a")])).endpoints["team/a"]
    limit, states = overflow(limit=10), []
    for in_flight in (9, 10, 9, 8, 7, 9):
        found.candidate.requests_in_flight = in_flight
        states.append(found.takes_more(limit, 0.0))
    assert states == [True, False, False, False, True, True]


def test_a_saturated_endpoint_takes_no_more():
    found = catalog(plan([endpoint("a")])).endpoints["team/a"]
    assert [found.takes_more(overflow(saturation=80), level) for level in (0.5, 0.8, 0.7, 0.6)] == [
        True,
        False,
        False,
        True,
    ]
    assert found.takes_more(None, 1.0)


def test_a_replica_is_called_by_the_name_that_it_lists_and_a_provider_by_the_one_that_is_written():
    found = catalog(plan([endpoint("a", model="written")]))
    one = found.endpoints["team/a"]
    assert one.model == "written"
    found.learned(one, ("listed", "written"))
    assert one.model == "written"
    found.learned(one, ("listed", "other"))
    assert one.model == "listed"
