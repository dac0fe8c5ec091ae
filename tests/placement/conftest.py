"""Whole schedules as values that read at a glance."""

import pytest

from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet


def show(decided):
    """Placements as cluster/pool#index, with a fate where it is not the usual one; drops with their reason."""
    placements = [
        f"{p.replica.cluster}/{_pools(p.replica)}#{p.replica.index} {p.decision.value}" for p in decided.placements
    ]
    dropped = [f"{d.replica.cluster}#{d.replica.index} {d.reason.value}" for d in decided.dropped]
    return placements, dropped, decided.pending


def _pools(replica):
    return "+".join(dict.fromkeys(assignment.pool for assignment in replica.assignments))


@pytest.fixture
def shown():
    return show


@pytest.fixture
def decide():
    def run(asked, clusters=(), replicas=(), caches=(), now=0.0):
        return show(schedule(asked, Fleet.of(clusters, replicas, caches), now))

    return run


@pytest.fixture
def settle():
    """Schedules until nothing changes, serving whatever was placed; returns the fleet and the last schedule."""

    def run(asks, fleet, *, now=0.0, rounds=12):
        import msgspec

        for _ in range(rounds):
            changed = False
            for asked in asks:
                decided = schedule(asked, fleet, now)
                wanted = {p.replica.id: p.replica for p in decided.placements}
                before = {h.id: h for h in fleet.owned_by(asked.deployment)}
                gone = [found for found in before if found not in wanted]
                come = [
                    msgspec.structs.replace(h, serving=True, created="2026-01-01T00:00:00Z") for h in wanted.values()
                ]
                come = [h for h in come if before.get(h.id) != h]
                if gone or come:
                    changed = True
                    fleet = fleet.with_replicas(come, gone)
            if not changed:
                return fleet
        raise AssertionError("did not settle")

    return run
