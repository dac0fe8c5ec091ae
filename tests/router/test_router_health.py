from hypothesis import given
from hypothesis import strategies as st

from modelplane.router.health import EndpointHealth, HealthState


def test_a_refused_connection_ejects_at_once():
    health = EndpointHealth()
    assert health.failed(10.0, "a refused connection", refused=True)
    assert not health.admits(10.9)
    assert health.describe(10.5) == "is ejected for 0.5 s after a refused connection"


def test_three_failures_in_a_row_eject():
    health = EndpointHealth()
    assert [health.failed(at, "status 500") for at in (1.0, 1.1, 1.2)] == [False, False, True]


def test_a_success_between_failures_keeps_it():
    health = EndpointHealth()
    for at in (1.0, 1.1, 1.3, 1.4):
        health.failed(at, "status 500")
        health.succeeded(at)
    assert health.admits(1.5)


def test_few_requests_that_all_fail_for_a_second_eject():
    health = EndpointHealth()
    assert not health.failed(1.0, "status 502")
    assert health.failed(2.0, "status 502")


def test_it_returns_by_trial_one_request_at_a_time():
    health = EndpointHealth()
    health.failed(1.0, "a refused connection", refused=True)
    assert health.admits(2.1)
    health.sent()
    assert not health.admits(2.1)
    for at in (2.2, 2.3):
        health.succeeded(at)
        assert health.state(at) is HealthState.TRIAL
        health.sent()
    health.succeeded(2.4)
    assert health.state(2.4) is HealthState.HEALTHY


def test_a_failed_trial_ejects_for_twice_as_long():
    health = EndpointHealth()
    health.failed(1.0, "x", refused=True)
    assert health.admits(2.0)
    health.failed(2.0, "status 500")
    assert not health.admits(3.9)
    assert health.admits(4.0)


def test_ejections_are_forgotten_after_a_while_of_health():
    health = EndpointHealth()
    for began in (1.0, 100.0):
        health.failed(began, "x", refused=True)
        assert not health.admits(began + 0.9)
        assert health.admits(began + 1.0)
        for more in (1.1, 1.2, 1.3, 60.0):
            health.succeeded(began + more)


def test_a_client_that_leaves_says_nothing_of_the_endpoint():
    health = EndpointHealth()
    health.failed(1.0, "x", refused=True)
    assert health.admits(2.0)
    health.sent()
    health.abandoned()
    assert health.admits(2.0)


def test_probes_eject_and_bring_back():
    health = EndpointHealth()
    health.probed(1.0, answers=False)
    assert not health.admits(1.5)
    assert health.why == "a failed health check"
    health.probed(1.5, answers=False)
    assert not health.admits(2.2)
    health.probed(2.2, answers=True)
    assert health.state(2.2) is HealthState.TRIAL
    health.probed(2.3, answers=True)
    assert health.state(2.3) is HealthState.TRIAL


EVENTS = st.lists(st.tuples(st.sampled_from(["ok", "bad", "refused", "sent", "left", "up", "down"]), st.floats(0, 5)))


@given(EVENTS)
def test_it_always_comes_back_when_nothing_happens_for_long(events):
    health, now_s = EndpointHealth(), 0.0
    for event, wait_s in events:
        now_s += wait_s
        match event:
            case "ok":
                health.succeeded(now_s)
            case "bad":
                health.failed(now_s, "status 500")
            case "refused":
                health.failed(now_s, "x", refused=True)
            case "sent":
                health.sent()
            case "left":
                health.abandoned()
            case _:
                health.probed(now_s, answers=event == "up")
    assert health.state(now_s + 31.0) is not HealthState.EJECTED
