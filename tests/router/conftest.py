"""Builders of plans, and a director with a clock that tests move."""

import json

import pytest

from modelplane.compose.service_plan import PlanEndpoint, PlanOverflow, PlanTier, ServicePlan
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.router.catalog import ServiceCatalog
from modelplane.router.director import RouterDirector
from modelplane.router.front_values import FrontRequest, FrontResponse, RouterAnswer
from modelplane.router.profile import load_profile, make_scheduler
from modelplane.router.stalls import Stalls


def endpoint(name, **more):
    """A replica on cluster east, unless something else is said."""
    given = {
        "key": f"team/{name}", "group": "main", "weight": 1, "secure": False, "address": "10.0.0.1", "port": 80,
        "host": None, "replica": f"team/{name}", "cluster": "east", "model": "engine",
    }  # fmt: skip
    return PlanEndpoint(**(given | more))


def provider(name, **more):
    return endpoint(name, **({"replica": None, "cluster": None, "host": "api.example", "model": "big"} | more))


def plan(*tiers, name="chat", **more):
    """A service whose tiers are lists of endpoints."""
    made = tuple(PlanTier(number, tuple(each)) for number, each in enumerate(tiers))
    return ServicePlan("team", name, tiers=made, **more)


def overflow(limit=None, saturation=None, most=100):
    return PlanOverflow(limit, saturation, most)


def chat(model="team/chat", content="hello", path="/v1/chat/completions", headers=None, **body):
    given = {"model": model, "messages": [{"role": "user", "content": content}], **body}
    found = {":method": "POST", ":path": path, **(headers or {})}
    return FrontRequest(found, json.dumps(given).encode())


class Front:
    """A director under a clock that stands still until it is moved."""

    def __init__(self, *plans, seed=7):
        import random

        self.now_s = 1000.0
        self.lines = []
        self.stalls = Stalls()
        self.catalog = ServiceCatalog()
        chance = random.Random(seed)  # noqa: S311  a test's
        self.director = RouterDirector(
            self.catalog,
            make_scheduler(load_profile()),
            clock=lambda: self.now_s,
            wall_clock=lambda: "2026-11-16T18:00:00Z",
            chance=chance.random,
            write_usage=self.lines.append,
        )
        self.catalog.replace(plans)

    def send(self, request=None, **more):
        """The decision for a request."""
        return self.director.decide(request or chat(**more))

    def end(self, routed, status=200, *, unserved=False, usage=None, cancelled=False):
        first_s = self.now_s if status else -1.0
        self.director.ended(routed, FrontResponse(status, first_s, unserved, usage or ResponseUsage(), cancelled))

    def ask(self, status=200, request=None, **more):
        """Send a request and end it; the name of the endpoint it went to, or the refusal's title."""
        decided = self.send(request, **more)
        if isinstance(decided, RouterAnswer):
            return decided.refusal.outcome.title
        self.end(decided, status)
        return decided.member.plan.name


@pytest.fixture
def front():
    return Front
