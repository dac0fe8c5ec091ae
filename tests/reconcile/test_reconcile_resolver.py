"""Names are looked up beside the loop, every 30 s."""

import threading

from modelplane.reconcile.resolver import LIFETIME_S, HostResolver, look_up
from modelplane.testing.clock import VirtualClock


class Lookups:
    def __init__(self):
        self.asked = []
        self.answer = ("192.0.2.1",)
        self.done = threading.Semaphore(0)

    def __call__(self, host):
        self.asked.append(host)
        return self.answer


def settled(resolver, host, expected):
    """The resolver's answer once its thread has run."""
    deadline = threading.Event()
    for _ in range(6000):
        if resolver(host) == expected:
            return True
        deadline.wait(0.01)
    return False


def test_a_name_is_none_until_it_was_looked_up():
    lookups = Lookups()
    resolver = HostResolver(VirtualClock(), lookups)
    assert resolver("a.example") is None
    assert settled(resolver, "a.example", ("192.0.2.1",))
    assert lookups.asked == ["a.example"]
    resolver.close()


def test_an_old_answer_counts_until_there_is_a_new_one():
    clock, lookups = VirtualClock(), Lookups()
    resolver = HostResolver(clock, lookups)
    resolver("a.example")
    assert settled(resolver, "a.example", ("192.0.2.1",))
    lookups.answer = ()
    clock.advance(LIFETIME_S - 1)
    assert resolver("a.example") == ("192.0.2.1",)
    assert lookups.asked == ["a.example"]
    clock.advance(1)
    assert resolver("a.example") == ("192.0.2.1",)
    assert settled(resolver, "a.example", ())
    resolver.close()


def test_the_system_s_resolver_finds_loopback_and_says_when_there_is_nothing():
    assert set(look_up("localhost")) <= {"127.0.0.1", "::1"}
    assert look_up("localhost")
    assert look_up("does-not-exist.invalid") == ()
    assert look_up("a" * 300) == ()
