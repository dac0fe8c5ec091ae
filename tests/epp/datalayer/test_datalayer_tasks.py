"""Tasks that are cancelled together."""

import asyncio

import pytest

from modelplane.epp.datalayer.tasks import cancel_all


async def sleep():
    await asyncio.sleep(60)


async def fail():
    raise LookupError("broken")


def test_tasks_are_cancelled_and_awaited(run):
    async def scenario():
        tasks = [asyncio.create_task(sleep()) for _ in range(2)]
        await cancel_all([None, *tasks])
        return [task.cancelled() for task in tasks]

    assert run(scenario()) == [True, True]


def test_an_error_of_a_task_is_raised(run):
    async def scenario():
        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        with pytest.raises(LookupError, match="broken"):
            await cancel_all([task])

    run(scenario())
