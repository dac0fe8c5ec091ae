import asyncio
from collections.abc import Awaitable, Callable

import pytest

from modelplane.engine import Address, Engine, EngineConfig

Scenario = Callable[[Engine, Address], Awaitable[None]]


def make_config(**changes: object) -> EngineConfig:
    plain = {"cluster": "east", "namespace": "team-a", "pod": "demo-0", "models": ("demo", "demo-alias"), "speed": 1000}
    return EngineConfig(**{**plain, **changes})


async def _play(scenario: Scenario, config: EngineConfig) -> None:
    engine = Engine(config)
    address = await engine.start("127.0.0.1")
    try:
        await scenario(engine, address)
    finally:
        await engine.stop(grace_s=0)
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks outlive the engine: {left}"


@pytest.fixture(name="config")
def config_factory() -> Callable[..., EngineConfig]:
    return make_config


@pytest.fixture(name="play")
def play_scenario() -> Callable[..., None]:
    """Run a scenario against a started engine, then stop it and check that nothing of it is left."""

    def play(scenario: Scenario, **changes: object) -> None:
        asyncio.run(_play(scenario, make_config(**changes)))

    return play
