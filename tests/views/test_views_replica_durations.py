"""Replicas are counted once, when they serve for the first time."""

from modelplane.api.timestamps import epoch_s
from modelplane.views.metric_families import SecondsHistogram
from modelplane.views.replica_durations import BOUNDS_S, READY, STAGING, WARMUP, ReplicaDurations

BEGAN = epoch_s("2026-01-01T00:00:00Z")
CHAT = ("team", "chat")


def at(minute, second=0):
    return f"2026-01-01T00:{minute:02}:{second:02}Z"


def replica(
    uid="a",
    *,
    created="2026-01-01T00:01:00Z",
    staged=None,
    serves=None,
    caches=(),
    served=None,
    owner="chat",
    status="True",
):
    since = {"CachesReady": staged, "Ready": serves}
    return {
        "metadata": {"name": "chat-0", "namespace": "team", "uid": uid, "creationTimestamp": created},
        "spec": {
            "clusterName": "east",
            "deployment": {"name": owner, "uid": "u"},
            "caches": list(caches),
            "engines": [],
        },
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": "R", "lastTransitionTime": time}
                for kind, time in since.items()
                if time
            ],
            **({} if served is None else {"servedGeneration": served}),
        },
    }


def histogram(*seconds):
    made = SecondsHistogram.empty(BOUNDS_S)
    for each in seconds:
        made = made.with_one(each)
    return made


def counted(*readings):
    durations = ReplicaDurations(BEGAN)
    for reading in readings:
        durations.observe(reading)
    return {family.spec: dict(family.values) for family in durations.families()}


NOTHING = {READY: {}, STAGING: {}, WARMUP: {}}


def test_a_replica_that_does_not_serve_yet_is_not_counted():
    assert counted([replica()], [replica(staged=at(2))]) == NOTHING


def test_a_replica_is_counted_once_and_by_its_stages():
    done = replica(staged=at(2), serves=at(3, 30), caches=[{"name": "weights", "mountPath": "/m"}])
    later = replica(staged=at(2), serves=at(9), caches=[{"name": "weights", "mountPath": "/m"}])
    assert counted([replica()], [done], [done], [replica()], [later]) == {
        READY: {CHAT: histogram(150)},
        STAGING: {CHAT: histogram(60)},
        WARMUP: {CHAT: histogram(90)},
    }


def test_a_replica_without_caches_stages_nothing():
    found = counted([replica(staged=at(1), serves=at(2))])
    assert found == {READY: {CHAT: histogram(60)}, STAGING: {}, WARMUP: {CHAT: histogram(60)}}


def test_caches_that_were_staged_again_since_do_not_make_a_negative_time():
    found = counted([replica(staged=at(9), serves=at(2), caches=[{"name": "weights", "mountPath": "/m"}])])
    assert (found[STAGING], found[WARMUP]) == ({CHAT: histogram(60)}, {CHAT: histogram(0)})


def test_a_replica_of_before_counts_when_it_had_not_served():
    before = "2025-12-31T23:59:00Z"
    assert counted([replica(created=before, serves=at(1))]) == NOTHING
    assert counted([replica(created=before, served=1)], [replica(created=before, serves=at(1), served=1)]) == NOTHING
    found = counted([replica(created=before)], [replica(created=before, serves=at(1))])
    assert found[READY] == {CHAT: histogram(120)}


def test_a_replica_of_the_second_in_which_the_process_began_counts():
    durations = ReplicaDurations(BEGAN + 0.9)
    durations.observe([replica(created=at(0), serves=at(1))])
    assert durations.families()[0].values == {CHAT: histogram(60)}


def test_a_replica_with_the_same_name_and_another_uid_is_another_one():
    found = counted([replica("a", serves=at(2))], [replica("b", created=at(5), serves=at(6))])
    assert found[READY] == {CHAT: histogram(60, 60)}


def test_what_has_no_time_is_passed_over():
    assert counted([replica(created="yesterday", serves=at(2)), {"metadata": 5}]) == NOTHING


def test_a_condition_counts_while_it_holds():
    found = counted([replica(status="False", staged=at(2), serves=at(3))], [replica(status="Unknown", serves=at(3))])
    assert found == NOTHING


def test_deployments_beyond_the_most_are_counted_together():
    found = counted([replica(f"{n}", owner=f"d{n:04}", serves=at(2)) for n in range(1002)])
    assert len(found[READY]) == 1001
    assert (found[READY]["team", "d0999"], found[READY]["other", "other"]) == (histogram(60), histogram(60, 60))
    others = [replica(f"{n}", owner=f"d{n:04}", serves=at(2)) for n in range(1000)]
    again = counted([replica("a", serves=at(2))], others, [replica("b", serves=at(2))])
    assert (again[READY][CHAT], again[READY]["other", "other"]) == (histogram(60, 60), histogram(60))


def test_the_histograms_are_those_of_the_page():
    assert [(spec.name, spec.type, spec.labels, spec.unit) for spec in (READY, STAGING, WARMUP)] == [
        (f"modelplane_replica_{name}_seconds", "histogram", ("namespace", "deployment"), "seconds")
        for name in ("ready_duration", "staging", "warmup")
    ]
    assert BOUNDS_S == (5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
