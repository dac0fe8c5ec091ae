"""Plugins are timed for a sample of the calls, while somebody scrapes."""

import pytest

from modelplane.epp.config.config import load
from modelplane.epp.scheduling.metrics import EndpointMetrics
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.scheduling.responses import EndpointResponse
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.observe.plugin_durations import AFTER_SCRAPE_S, EVERY, PluginDurations
from modelplane.testing.picking import chances, endpoints_with

TEXT = """apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer, name: mine}, {type: inflight-load-producer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: mine}]}]
"""
POOL = endpoints_with([EndpointMetrics(waiting=waiting) for waiting in [1, 2]])


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def ask(scheduler, times):
    """Each request is decided and answered: two calls."""
    for at in range(times):
        request = Request(f"r{at}")
        decision = scheduler.schedule(request, POOL, 0.0, chances())
        scheduler.response_complete(request, decision, EndpointResponse(decision.picked, 200, 0.0))


def counted(durations, *key):
    found = durations.histograms.get(key)
    return 0 if found is None else sum(found.counts)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def scheduler():
    return Scheduler(load(TEXT).build())


SCORER = ("Scorer", "queue-scorer", "mine")
ENDED = ("ResponseComplete", "inflight-load-producer", "inflight-load-producer")


def test_requests_and_responses_are_sampled_while_somebody_scrapes(scheduler, clock):
    durations = PluginDurations(scheduler, clock)
    ask(scheduler, EVERY)
    assert (durations.histograms, scheduler.sampler) == ({}, None)
    durations.scraped()
    ask(scheduler, EVERY)
    durations.scraped()
    assert (counted(durations, *SCORER), counted(durations, *ENDED)) == (1, 1)
    clock.now_s = AFTER_SCRAPE_S
    ask(scheduler, EVERY)
    assert (counted(durations, *SCORER), scheduler.sampler) == (1, None)
    durations.scraped()
    ask(scheduler, EVERY)
    durations.scraped()
    assert counted(durations, *SCORER) == 2


def test_a_scheduler_that_takes_over_is_timed_and_the_one_before_no_longer(scheduler, clock):
    durations = PluginDurations(scheduler, clock)
    durations.scraped()
    ask(scheduler, EVERY)
    after = Scheduler(load(TEXT).build(scheduler.assembly))
    durations.follow(after)
    assert scheduler.sampler is None
    ask(after, EVERY)
    durations.scraped()
    assert counted(durations, *SCORER) == 2


def test_nobody_scrapes_and_the_configuration_changes(scheduler, clock):
    durations = PluginDurations(scheduler, clock)
    after = Scheduler(load(TEXT).build())
    durations.follow(after)
    assert after.sampler is None


def test_a_fault_of_a_timed_plugin_counts_where_the_others_do(scheduler, clock):
    class Breaks:
        name = "breaks"

        def pre_request(self, *_arguments):
            raise RuntimeError("boom")

    built = scheduler.assembly
    broken = Scheduler(type(built)(built.handler, built.profiles, {**built.plugins, "breaks": Breaks()}))
    reported = []
    broken.on_fault = reported.append
    PluginDurations(broken, clock).scraped()
    ask(broken, EVERY)
    assert (broken.faults, len(reported)) == ({"breaks": EVERY}, EVERY)
