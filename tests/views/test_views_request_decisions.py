from modelplane.views.request_decisions import AttemptShown, CandidateStep, RequestShown, details, headline, rows

ADMITTED = CandidateStep("team/a", total=0.5, scores={"prefix-cache-scorer": 1.0, "group-load-scorer": 0.5})
OTHER = CandidateStep("team/c", total=0.25, scores={"group-load-scorer": 1.0})
REFUSED = CandidateStep("team/b", "endpoint-health-filter", "is ejected for 0.5 s after status 500")


def attempt(**more):
    given = {"number": 1, "outcome": "Routed", "endpoint": "team/a", "why": "", "status": 200, "duration_ms": 12.5}
    return AttemptShown(**(given | {"candidates": (ADMITTED, OTHER, REFUSED)} | more))


def request(*attempts, **more):
    given = {"id": "r", "service": "team/chat", "model": "m", "path": "/v1/x", "caller": "ada", "residency": ""}
    return RequestShown(**(given | {"session": False, "age_s": 1.0, "attempts": attempts} | more))


def test_the_headline_says_where_it_went():
    assert headline(request(attempt())) == "request r: team/chat: sent to team/a, 200 after 12.5 ms"
    again = (attempt(status=503), attempt(number=2, duration_ms=-1.0))
    assert headline(request(*again)) == "request r: team/chat: sent to team/a, still running, attempt 2"
    assert headline(request(attempt(status=0))) == "request r: team/chat: sent to team/a, no response after 12.5 ms"


def test_the_headline_says_why_it_went_nowhere():
    refused = attempt(outcome="NotReady", endpoint="", why="no endpoint is ready", status=503)
    assert headline(request(refused)) == "request r: team/chat: NotReady (503): no endpoint is ready"
    assert headline(request(service="")) == "request r: no service: not decided"


def test_details_are_what_mattered():
    assert details(request()) == "path /v1/x, model m, caller ada"
    assert details(request(residency="fleet", session=True, caller="")) == (
        "path /v1/x, model m, residency fleet, with a session"
    )


def test_rows_are_every_candidate():
    assert rows(attempt()) == [
        ("chosen", "team/a", "0.500", "prefix-cache-scorer 1.00, group-load-scorer 0.50"),
        ("admitted", "team/c", "0.250", "group-load-scorer 1.00"),
        ("refused", "team/b", "-", "endpoint-health-filter: is ejected for 0.5 s after status 500"),
    ]
