"""GarbageCollector is found between calls, and memory of what was read is not looked through again."""

import asyncio
import gc
import weakref

from modelplane.reconcile.collector import calm_collector, collect_between_calls


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self):
        self.myself = self


def test_cycles_go_in_a_pause_and_what_stays_is_frozen():
    async def story():
        work = asyncio.create_task(collect_between_calls(lambda: False, pause_s=0.01))
        await asyncio.sleep(0)
        assert not gc.isenabled()
        before = gc.get_freeze_count()
        gone = asyncio.Event()
        weakref.finalize(Knot(), gone.set)
        kept = [[] for _ in range(30_000)]
        await asyncio.wait_for(gone.wait(), 60)
        assert gc.get_freeze_count() - before >= len(kept)
        work.cancel()
        await asyncio.wait([work])

    try:
        asyncio.run(story())
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def test_nothing_is_scanned_while_a_call_is_in_progress_until_patience_ends():
    """Before, a call of 15 s was scanned each second, and every other call waited half a second for it."""
    checks: list[bool] = []

    async def story():
        gone = asyncio.Event()

        def is_busy():
            checks.append(gone.is_set())
            return True

        work = asyncio.create_task(collect_between_calls(is_busy, pause_s=0.001))
        await asyncio.sleep(0)
        weakref.finalize(Knot(), gone.set)
        kept = [[] for _ in range(30_000)]
        await asyncio.wait_for(gone.wait(), 60)
        del kept
        work.cancel()
        await asyncio.wait([work])

    try:
        asyncio.run(story())
        assert checks[:60] == [False] * 60
    finally:
        gc.unfreeze()


def test_what_a_server_read_at_its_start_is_in_no_collection_that_requests_wait_for():
    """Before, one full collection of a router stopped it for a tenth of a second and more."""
    before = gc.get_threshold()
    held = [[] for _ in range(30_000)]
    try:
        calm_collector()
        assert gc.get_freeze_count() >= len(held)
        assert len(gc.get_objects()) < len(held)
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
