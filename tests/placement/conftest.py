"""Whole schedules as values that read at a glance."""

import pytest

from modelplane.placement.schedule import schedule
from modelplane.placement.snapshot import Fleet


def show(decided):
    """Placements as cluster/pool#index, with a fate where it is not the usual one; drops with their reason."""
    placements = [
        f"{p.holding.cluster}/{_pools(p.holding)}#{p.holding.index} {p.fate.value}" for p in decided.placements
    ]
    dropped = [f"{d.holding.cluster}#{d.holding.index} {d.reason.value}" for d in decided.dropped]
    return placements, dropped, decided.pending


def _pools(holding):
    return "+".join(dict.fromkeys(seat.pool for seat in holding.seats))


@pytest.fixture
def shown():
    return show


@pytest.fixture
def decide():
    def run(asked, clusters=(), holdings=(), caches=(), now=0.0):
        return show(schedule(asked, Fleet.of(clusters, holdings, caches), now))

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
                wanted = {p.holding.id: p.holding for p in decided.placements}
                before = {h.id: h for h in fleet.owned_by(asked.deployment)}
                gone = [found for found in before if found not in wanted]
                come = [
                    msgspec.structs.replace(h, serving=True, created="2026-01-01T00:00:00Z") for h in wanted.values()
                ]
                come = [h for h in come if before.get(h.id) != h]
                if gone or come:
                    changed = True
                    fleet = fleet.with_holdings(come, gone)
            if not changed:
                return fleet
        raise AssertionError("did not settle")

    return run
