import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.compose.caller_document import Caller, CallerDocument
from modelplane.router.callers import Callers, MinuteAllowance, digest_of, key_of

MONTH = "2026-11"


def callers(**limits):
    return Callers(CallerDocument((Caller("ada", (digest_of("k1"), digest_of("k2")), **limits),)))


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"authorization": "Basic abc"}, ""),
        ({"x-api-key": "abc"}, "abc"),
        ({"authorization": "Basic abc", "x-api-key": "def"}, "def"),
        ({"authorization": f"Bearer {'x' * 5000}"}, ""),
        ({}, ""),
    ],
)
def test_where_clients_send_their_keys(headers, key):
    assert key_of(headers) == key


def test_a_caller_is_known_by_any_of_its_keys_and_no_key_is_kept():
    known = callers()
    for key in ("k1", "k2"):
        assert known.identify({"x-api-key": key}).name == "ada"
    assert known.identify({"x-api-key": "k3"}).outcome.status == 401
    held = {
        name: getattr(known, name) for name in dir(known) if name != "__dict__" and not callable(getattr(known, name))
    }
    assert "_by_digest" in held
    assert "k1" not in repr(held)


def test_behind_another_gateway_its_header_names_the_caller():
    known = Callers(CallerDocument((Caller("ada", services=("team/*",)),), checks_keys=False))
    assert known.identify({"x-modelplane-caller": "ada"}).services == ("team/*",)
    assert known.identify({"x-modelplane-caller": "eve"}) == Caller("eve")
    assert Callers().identify({}) == Caller("anonymous")


@pytest.mark.parametrize(
    ("services", "service", "allowed"),
    [
        (("*",), "team/chat", True),
        (("team/*",), "team/chat", True),
        (("team/chat",), "team/chat", True),
        (("team/chat",), "team/other", False),
        (("tea/*",), "team/chat", False),
        ((), "team/chat", False),
    ],
)
def test_whom_a_caller_may_call(services, service, allowed):
    assert Caller("ada", services=services).may_call(service) is allowed


def test_a_key_is_rotated_without_losing_what_was_counted():
    known = callers(requests_per_minute=1)
    ada = known.identify({"x-api-key": "k1"})
    assert known.admit(ada, "team/chat", MONTH, 1.0) is None
    known.replace(CallerDocument((Caller("ada", (digest_of("k9"),), requests_per_minute=1),)))
    assert known.identify({"x-api-key": "k1"}).outcome.status == 401
    assert known.admit(known.identify({"x-api-key": "k9"}), "team/chat", MONTH, 1.1).outcome.title == "Limited"


def test_tokens_are_charged_when_they_are_known_and_waited_for():
    known = callers(tokens_per_minute=600)
    ada = known.identify({"x-api-key": "k1"})
    assert known.admit(ada, "team/chat", MONTH, 0.0) is None
    known.used(ada, 900, 0.0, MONTH, 1.0)
    refusal = known.admit(ada, "team/chat", MONTH, 1.0)
    assert (refusal.why, refusal.retry_after_s) == ("ada may use 600 tokens a minute", 31)
    assert known.admit(ada, "team/chat", MONTH, 32.0) is None


def test_a_budget_is_for_a_month():
    known = callers(budget=1.0)
    ada = known.identify({"x-api-key": "k1"})
    known.used(ada, 0, 1.5, MONTH, 1.0)
    assert known.admit(ada, "team/chat", MONTH, 2.0).outcome.title == "OverBudget"
    assert known.admit(ada, "team/chat", "2026-12", 2.0) is None


@given(st.integers(1, 1000), st.lists(st.tuples(st.floats(0, 10), st.integers(0, 50)), max_size=50))
def test_no_more_than_the_limit_and_one_minute_passes(limit, uses):
    bucket, now_s, used = MinuteAllowance(limit, 0.0), 0.0, 0
    for wait_s, amount in uses:
        now_s += wait_s
        if not bucket.wait_s(now_s):
            bucket.use(now_s, amount)
            used += amount
    assert used <= limit + limit * now_s / 60.0 + 50
