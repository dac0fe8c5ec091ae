"""Tasks beside a controller's passes."""

import asyncio

from modelplane.sim.cluster.background import BackgroundTasks


def test_a_task_is_kept_until_it_has_ended():
    async def main():
        tasks, ended, gate = BackgroundTasks(), [], asyncio.Event()

        async def wait():
            await gate.wait()

        tasks.spawn(wait(), "one", lambda task: ended.append(task.get_name()))
        cancelled = tasks.spawn(wait(), "two", lambda task: ended.append(task.get_name()))
        cancelled.cancel()
        await tasks.wait_for_one(1)
        held = len(tasks)
        await tasks.wait_for_one(0.01)
        gate.set()
        await tasks.drain()
        await tasks.wait_for_one(1)
        return held, len(tasks), ended

    assert asyncio.run(main()) == (1, 0, ["one"])
