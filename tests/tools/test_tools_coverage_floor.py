"""Coverage has floors that only rise."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("coverage_floor_tool", ROOT / "tools" / "coverage_floor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_number_below_its_floor_is_a_problem(tool):
    floors = {"placement": 99.5, "whole": 95.0}
    assert tool.below(floors, {"placement": 99.51, "whole": 95.0}) == []
    assert tool.below(floors, {"placement": 99.49}) == ["placement: 99.4 %, it was 99.5 %"]


def test_floors_rise_and_never_fall(tool):
    floors = {"placement": 99.5, "whole": 95.0}
    assert tool.raised(floors, {"placement": 99.99, "framework": 88.88}) == {
        "framework": 88.8,
        "placement": 99.9,
        "whole": 95.0,
    }


def test_floors_are_of_rooms_that_exist(tool):
    floors = json.loads(tool.FLOORS.read_text())
    assert floors.keys() <= {*tool.ROOMS, "whole"}
    assert all(90 <= floor <= 100 for floor in floors.values())
