"""A function server on loopback, and the manifests that tests hand to it as Crossplane would."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.structural import Structures

SCHEMAS = Path(__file__).resolve().parents[1] / "compose" / "schemas" / "schemas.json"


@pytest.fixture(scope="session")
def problems():
    """What is wrong with an object, by the structure of the real definitions."""
    stored = json.loads(SCHEMAS.read_text())
    return Structures(stored["kinds"], stored["shared"]).problems


@pytest.fixture
def run():
    """Runs a coroutine to its end."""
    with asyncio.Runner() as runner:
        yield runner.run
