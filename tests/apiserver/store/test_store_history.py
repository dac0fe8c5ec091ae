from modelplane.apiserver.store.history import ChangeLog, Expired, History
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange


def change(revision):
    return StoreChange(ChangeType.ADDED, ObjectRef("", "Pod", "a", f"pod-{revision}"), {}, None, revision)


def test_changes_since_a_revision_come_in_order():
    history, log = History(limit=10), ChangeLog(revision=5)
    for revision in (6, 7, 8):
        history.record(log, change(revision))
    answers = [log.since(revision) for revision in (4, 5, 7, 8, 9)]
    all_three = tuple(change(revision) for revision in (6, 7, 8))
    assert answers == [Expired(oldest=5), all_three, (change(8),), (), Expired(oldest=5)]


def test_one_bound_covers_all_logs_and_takes_the_oldest_first():
    history, quiet, busy = History(limit=3), ChangeLog(0), ChangeLog(0)
    history.record(quiet, change(1))
    for revision in range(1, 5):
        history.record(busy, change(revision))
    assert (quiet.since(0), quiet.since(1)) == (Expired(oldest=1), ())
    assert (busy.since(0), busy.since(1)) == (Expired(oldest=1), (change(2), change(3), change(4)))


def test_a_log_that_does_not_remember_takes_no_room_and_continues_from_the_newest_only():
    history, plain, kept = History(limit=2), ChangeLog(0), ChangeLog(0)
    history.record(plain, change(1))
    plain.disable()
    for revision in (2, 3, 4):
        history.record(plain, change(revision))
    for revision in (1, 2):
        history.record(kept, change(revision))
    assert (plain.since(3), plain.since(4)) == (Expired(oldest=4), ())
    assert kept.since(0) == (change(1), change(2))
