"""GarbageCollector is found between calls, and memory of what was read is not looked through again."""

import asyncio
import gc
import weakref

from modelplane.reconcile.collector import collect_between_calls


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self):
        self.myself = self


def test_cycles_go_in_a_pause_and_what_stays_is_frozen():
    async def story():
        work = asyncio.create_task(collect_between_calls(pause_s=0.01))
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
