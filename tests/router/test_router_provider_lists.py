"""Lists of providers' models, from a provider with a key over real HTTP."""

import asyncio
import logging

import pytest

from modelplane.compose.provider_models import FetchedList, ListRequest
from modelplane.router.provider_lists import FORGET_S, REFRESH_S, RETRY_S, ProviderLists
from modelplane.testing.clock import VirtualClock
from tests.support.model_provider import KEY, ModelProvider
from tests.support.waiting import until

LISTED = FetchedList(("acme/large-3", "acme/small-1"))


@pytest.fixture
def provider():
    with ModelProvider() as made:
        yield made


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def lists(clock):
    made = ProviderLists(clock)
    yield made
    made.close()


def wanted(provider, key=KEY, allow=("localhost",)):
    return ListRequest(f"{provider.origin}/openai/v1/models", allow, "Authorization", f"Bearer {key}")


def settled(lists, request, expected):
    asyncio.run(until(lambda: lists(request) == expected))


def test_a_list_is_fetched_with_the_key_once_until_it_is_old(provider, lists, clock):
    request = wanted(provider)
    assert lists(request) is None
    settled(lists, request, LISTED)
    assert provider.requests == [("/openai/v1/models", f"Bearer {KEY}")]
    provider.names = ["acme/small-1"]
    clock.advance(REFRESH_S)
    assert lists(request) == LISTED
    settled(lists, request, FetchedList(("acme/small-1",)))
    assert len(provider.requests) == 2


def test_a_list_that_cannot_be_fetched_leaves_the_one_before(provider, lists, clock):
    request = wanted(provider)
    settled(lists, request, LISTED)
    provider.status = 500
    for seconds in (REFRESH_S, RETRY_S):
        before, seen = len(provider.requests), set()

        def asked_again(seconds=seconds, before=before, seen=seen):
            """Each time a while later: a fetch that still runs when it is due holds the next one back."""
            clock.advance(seconds)
            seen.add(lists(request))
            return len(provider.requests) > before

        asyncio.run(until(asked_again))
        assert seen == {LISTED}


def test_a_provider_that_is_gone_is_told_and_its_list_stays(provider, lists, clock):
    request = wanted(provider)
    settled(lists, request, LISTED)
    provider.stop()
    clock.advance(REFRESH_S)
    asyncio.run(until(lambda: lists(request) is not None and lists(request).unreached))
    found = lists(request)
    assert found.names == LISTED.names
    assert found.unreached == f"{request.url}: [Errno 111] Connection refused"


@pytest.mark.parametrize(("key", "allow", "calls"), [("wrong", ("localhost",), 1), (KEY, (), 0)])
def test_a_wrong_key_and_a_refused_address_list_nothing_and_log_no_key(provider, lists, caplog, key, allow, calls):
    caplog.set_level(logging.DEBUG)
    request = wanted(provider, key, allow)
    settled(lists, request, FetchedList())
    assert len(provider.requests) == calls
    assert provider.origin in caplog.text
    assert key not in caplog.text


def test_what_nobody_asks_for_is_forgotten_with_its_credential(provider, lists, clock):
    request, other = wanted(provider), wanted(provider, "other")
    settled(lists, request, LISTED)
    clock.advance(FORGET_S + 1)
    settled(lists, other, FetchedList())
    assert lists(request) is None
