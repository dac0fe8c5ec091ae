from collections import Counter

from tests.router.conftest import endpoint, plan, provider

LONG = "a long document that many questions are asked about. " * 100


def test_fewer_in_flight_are_better_inside_a_group(front):
    door = front(plan([endpoint("a"), endpoint("b")]))
    for _ in range(6):
        door.send()
    door.catalog.endpoints["team/a"].candidate.requests_in_flight = 20
    assert {door.ask(content=str(n)) for n in range(10)} == {"b"}


def test_load_does_not_change_what_groups_get(front):
    door = front(plan([endpoint("a", group="a"), provider("p", group="p")]))
    door.catalog.endpoints["team/p"].candidate.requests_in_flight = 100
    assert Counter(door.ask(content=str(n)) for n in range(20)) == {"a": 10, "p": 10}


def test_a_prefix_leads_to_where_it_was_sent(front):
    door = front(plan([endpoint("a"), endpoint("b"), endpoint("c")]))
    first = {document: door.ask(content=f"{document} {LONG}") for document in range(12)}
    assert len(set(first.values())) == 3
    assert first == {document: door.ask(content=f"{document} {LONG} And now?") for document in range(12)}


def test_a_session_stays_where_it_began(front):
    door = front(plan([endpoint("a"), endpoint("b"), endpoint("c")]))
    for session in "xyz":
        sent = {door.ask(content=str(n), headers={"x-session-id": session}) for n in range(10)}
        assert len(sent) == 1


def test_a_session_moves_while_its_endpoint_fails(front):
    door = front(plan([endpoint("a"), endpoint("b")]))
    routed = door.send(headers={"x-session-id": "s"})
    door.end(routed, 503, unserved=True)
    (other,) = {"a", "b"} - {routed.member.plan.name}
    assert {door.ask(headers={"x-session-id": "s"}) for _ in range(5)} == {other}
    door.now_s += 60.0
    assert {door.ask(headers={"x-session-id": "s"}) for _ in range(5)} == {routed.member.plan.name}
