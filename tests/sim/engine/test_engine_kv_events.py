import json

from modelplane.sim.engine.kv_events import (
    AllBlocksClearedEvent,
    BlockRemovedEvent,
    BlockStoredEvent,
    KvEventLog,
    PublishedBatch,
)


def make_log(**changes):
    return KvEventLog(**{"enabled": True, "wall_clock": lambda: 5.0, **changes})


def test_a_batch_reads_as_vllms():
    events = (BlockStoredEvent((7,), None, (1, 2), 2, "tuned"), BlockRemovedEvent((8,)), AllBlocksClearedEvent())
    assert json.loads(PublishedBatch(3, 5.0, events).line()) == {
        "seq": 3,
        "ts": 5.0,
        "events": [
            {
                "type": "BlockStored",
                "block_hashes": [7],
                "parent_block_hash": None,
                "token_ids": [1, 2],
                "block_size": 2,
                "lora_name": "tuned",
                "medium": "GPU",
            },
            {"type": "BlockRemoved", "block_hashes": [8], "medium": "GPU"},
            {"type": "AllBlocksCleared"},
        ],
    }


def test_batches_are_numbered_and_kept_for_those_who_missed_them():
    log, heard = make_log(), []
    leave = log.listen(heard.append)
    for name in (1, 2, 3):
        log.removed(name)
        log.publish()
    log.publish()
    assert [batch.seq for batch in heard] == [0, 1, 2]
    assert list(log.since(1)) == heard[1:]
    leave()
    log.add(AllBlocksClearedEvent())
    log.publish()
    assert len(heard) == 3
    assert list(log.since(3)) == [PublishedBatch(3, 5.0, (AllBlocksClearedEvent(),))]


def test_only_the_last_batches_are_kept():
    log = make_log()
    for name in range(1030):
        log.removed(name)
        log.publish()
    assert next(log.since(0)).seq == 6


def test_a_log_that_is_off_collects_nothing():
    log, heard = make_log(enabled=False), []
    log.listen(heard.append)
    log.add(AllBlocksClearedEvent())
    log.removed(1)
    log.publish()
    assert heard == []
