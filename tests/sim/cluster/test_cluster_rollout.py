"""The arithmetic of rollouts: tables of single steps, answers of the real controller, whole rollouts.

`rollouts.json` holds random cases and what the Deployment controller of Kubernetes 1.36.3 made of them: its own
reconcileNewReplicaSet, reconcileOldReplicaSets and scale, called on a fake client. A row is the step, replicas, surge,
unavailable, the new and the old ReplicaSets (name, age, replicas, available, desired and most by their annotations),
the Deployment's own count of pods, and the sizes afterwards.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.sim.cluster.rollout import (
    Revision,
    RolloutBounds,
    bounds,
    first_size,
    is_scaling,
    recreate,
    recreate_bounds,
    rescale,
    roll,
)


def revision(name="new", replicas=0, available=0, **more):
    return Revision(name=name, created=more.pop("created", name), replicas=replicas, available=available, **more)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (0, "25%", "25%", (0, 0)),
        (1, "25%", "25%", (1, 0)),
        (4, "25%", "25%", (1, 1)),
        (8, "25%", "25%", (2, 2)),
        (10, "25%", "25%", (3, 2)),
        (10, 3, 2, (3, 2)),
        (3, 0, "25%", (0, 1)),
        (3, "100%", 0, (3, 0)),
        (2, 0, 5, (0, 2)),
    ],
)
def test_percentages_resolve_as_kubernetes_rounds_them(replicas, surge, unavailable, expected):
    found = bounds(replicas, surge, unavailable)
    assert (found.surge, found.unavailable) == expected


@pytest.mark.parametrize(
    ("case", "new", "old", "expected"),
    [
        ("nothing to do", revision(replicas=10, available=10), [], {}),
        ("too many new pods", revision(replicas=12, available=12), [], {"new": 10}),
        ("grow up to the surge", revision(), [revision("old", 10, 10)], {"new": 3}),
        ("no room to grow: shrink", revision(replicas=3), [revision("old", 10, 10)], {"old": 8}),
        ("new pods that are not there yet hold back", revision(replicas=5), [revision("old", 8, 8)], {}),
        ("available new pods let old ones go", revision(replicas=5, available=5), [revision("old", 8, 8)], {"old": 3}),
        ("unhealthy old pods go first", revision(replicas=3), [revision("old", 10, 7)], {"old": 8}),
        (
            "roll over: two old revisions, the oldest first",
            revision(),
            [revision("a", 8, 8), revision("b", 5, 0)],
            {"b": 0},
        ),
        ("finish", revision(replicas=10, available=10), [revision("old", 2, 2)], {"old": 0}),
    ],
)
def test_one_step_of_a_rolling_update(case, new, old, expected):
    assert roll(bounds(10, 3, 2), new, old) == expected, case


def test_steps_are_those_of_the_real_controller():
    rows = json.loads(Path(__file__).with_name("rollouts.json").read_text(encoding="utf-8"))
    assert len(rows) == 400
    for step, replicas, surge, unavailable, new, old, seen, sizes in rows:
        wanted = bounds(replicas, surge, unavailable)
        newest, older = _read(new) if new else None, [_read(row) for row in old]
        found = roll(wanted, newest, older) if step == "roll" else rescale(wanted, newest, older, seen)
        before = {each.name: each.replicas for each in (*older, *([newest] if newest else []))}
        assert {**before, **found} == sizes


def _read(row):
    name, age, replicas, available, desired, most = row
    return revision(name, replicas, available, created=str(age), desired_then=desired, most_then=most)


def test_a_new_revision_starts_with_what_the_surge_leaves():
    assert first_size(bounds(8, "25%", "25%"), []) == 8
    assert first_size(bounds(8, "25%", "25%"), [revision("old", 8)]) == 2
    assert first_size(bounds(8, "25%", "25%"), [revision("old", 12)]) == 0
    assert first_size(recreate_bounds(8), []) == 8


@pytest.mark.parametrize(
    ("case", "new", "old", "old_pods", "expected"),
    [
        ("old ones first", revision(replicas=0), [revision("old", 3, 3)], 3, {"old": 0}),
        ("wait for their pods to go", revision(replicas=0), [revision("old", 0)], 2, {}),
        ("then all of the new", revision(replicas=0), [revision("old", 0)], 0, {"new": 3}),
        ("done", revision(replicas=3), [revision("old", 0)], 0, {}),
    ],
)
def test_one_step_of_a_recreate(case, new, old, old_pods, expected):
    assert recreate(recreate_bounds(3), new, old, old_pods=old_pods) == expected, case


def test_scaling_is_a_changed_number_since_the_last_sizing():
    wanted = bounds(5, "25%", "25%")
    assert is_scaling(wanted, [revision("old", 3, desired_then=3)])
    assert not is_scaling(wanted, [revision("old", 5, desired_then=5)])
    assert not is_scaling(wanted, [revision("empty", 0, desired_then=3), revision("unknown", 2)])


@pytest.mark.parametrize(
    ("case", "wanted", "new", "old", "expected"),
    [
        ("one active revision takes it all", bounds(7, 1, 0), revision(replicas=3), [], {"new": 7}),
        ("an old one does too", bounds(7, 1, 0), revision(), [revision("old", 3)], {"old": 7}),
        ("none active: the new one", bounds(7, 1, 0), revision(), [revision("old", 0)], {"new": 7}),
        ("none active and none new: the youngest", bounds(7, 1, 0), None, [revision("a"), revision("b")], {"b": 7}),
        ("nothing there", bounds(7, 1, 0), None, [], {}),
        (
            "a saturated new one needs no old ones",
            bounds(5, 1, 0),
            revision(replicas=5, available=5, desired_then=5),
            [revision("old", 2, 2)],
            {"old": 0},
        ),
        (
            "up in proportion, rounding leftovers to the largest",
            bounds(15, 3, 2),
            revision(replicas=5, most_then=13),
            [revision("old", 8, 8, most_then=13)],
            {"old": 11, "new": 7},
        ),
        (
            "down to nothing",
            bounds(0, 3, 2),
            revision(replicas=5, most_then=13),
            [revision("old", 8, 8, most_then=13)],
            {"old": 0, "new": 0},
        ),
        (
            "a recreate is not spread",
            recreate_bounds(5),
            revision(replicas=2, desired_then=4),
            [revision("old", 2)],
            {},
        ),
    ],
)
def test_one_step_of_rescaling(case, wanted, new, old, expected):
    assert rescale(wanted, new, old) == expected, case


@given(
    replicas=st.integers(0, 30),
    surge=st.one_of(st.integers(0, 5), st.sampled_from(["0%", "25%", "50%", "100%"])),
    unavailable=st.one_of(st.integers(0, 5), st.sampled_from(["0%", "25%", "50%", "100%"])),
    readiness=st.lists(st.integers(0, 3), min_size=1, max_size=20),
)
def test_a_rollout_ends_and_stays_within_its_bounds(replicas, surge, unavailable, readiness):
    wanted = bounds(replicas, surge, unavailable)
    new, old = revision("new"), revision("old", replicas, replicas)
    new = revision("new", first_size(wanted, [old]))
    for step in range(500):
        sizes = roll(wanted, new, [old])
        new = _resized(new, sizes)
        old = _resized(old, sizes)
        assert new.available + old.available >= wanted.least_available
        assert new.replicas + old.replicas <= wanted.most
        if new.replicas == new.available == replicas and old.replicas == 0:
            return
        became_ready = min(new.replicas, new.available + readiness[step % len(readiness)])
        new = revision(
            "new", new.replicas, max(became_ready, new.available + (not sizes and new.available < new.replicas))
        )
    pytest.fail("the rollout did not end")


def _resized(known, sizes):
    size = sizes.get(known.name, known.replicas)
    return revision(known.name, size, min(size, known.available))


@given(
    replicas=st.integers(0, 40),
    sizes=st.lists(st.integers(1, 20), min_size=2, max_size=4),
    surge=st.integers(0, 4),
)
def test_rescaling_in_proportion_hits_the_total_unless_the_largest_is_used_up(replicas, sizes, surge):
    wanted = RolloutBounds(replicas=replicas, surge=surge, unavailable=0)
    most = max(1, sum(sizes))
    old = [revision(f"r{n}", size, most_then=most) for n, size in enumerate(sizes[1:])]
    new = revision("new", sizes[0], most_then=most)
    found = rescale(wanted, new, old)
    total = sum(found.get(r.name, r.replicas) for r in [new, *old])
    assert all(size >= 0 for size in found.values())
    target = replicas + surge if replicas else 0
    assert total == target or (total > target and 0 in found.values())
