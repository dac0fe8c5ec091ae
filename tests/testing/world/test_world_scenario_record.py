"""Why replicas went where they are and why they left, and what they cost."""

from pathlib import Path

import pytest

from modelplane.cli.manifests import read_documents
from modelplane.testing.world.scenario import ScenarioPlan, run_scenario
from modelplane.testing.world.scenario_record import BilledHours, why_here
from modelplane.testing.world.scenario_steps import read_step

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "quickstart"
QUICKSTART = [document.value for document in read_documents([FOLDER])]


def run(*steps, manifests=QUICKSTART, seconds=120.0):
    return run_scenario(ScenarioPlan(manifests, [read_step(step) for step in steps], duration_s=seconds))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (("30 drain cluster east",), {"east is drained"}),
        (("30 delete cluster east",), {"east is deleted"}),
        (("30 scale qwen3-8b 1",), {"its deployment is scaled to 1"}),
        (("30 cordon cluster east",), set()),
    ],
    ids=", ".join,
)
def test_why_replicas_left(steps, expected):
    assert {each.why_left for each in run(*steps).replicas if each.left_s is not None} == expected


def test_replicas_that_come_together_are_judged_together():
    late = [each.why_here for each in run("30 scale qwen3-8b 6").replicas if each.placed_s > 30]
    assert set(late) == {
        "1 replica there, score 0.792; west: 1 replica there, score 0.792",
        "1 replica there, score 0.792; east: 1 replica there, score 0.792",
    }


def test_why_here_names_the_chosen_one_first_and_then_the_others():
    ranked = {"east": "score 0.9", "west": "refused by Capacity: full"}
    assert why_here(ranked, "east") == "score 0.9; west: refused by Capacity: full"
    assert why_here({"": "not known: x"}, "east") == "not known: x"


def test_a_price_that_is_not_known_makes_the_sum_unknown():
    bill = BilledHours(gpus=2, per_hour=10.0)
    bill.accrue(0.5)
    assert (bill.gpu_hours, bill.cost) == (1.0, 5.0)
    bill.per_hour = None
    bill.accrue(1.0)
    assert (bill.gpu_hours, bill.cost) == (3.0, None)
    bill.per_hour = 10.0
    bill.accrue(1.0)
    assert bill.cost is None


def test_a_class_without_a_price_is_said_to_be_unknown():
    unpriced = [
        {**item, "spec": {name: value for name, value in item["spec"].items() if name != "cost"}}
        if item["kind"] == "InferenceClass" else item
        for item in QUICKSTART
    ]  # fmt: skip
    outcome = run(manifests=unpriced)
    (found,) = outcome.deployments
    assert (found.cost, outcome.bill.deployments_cost, outcome.bill.nodes_cost) == (None, None, None)
    assert found.gpu_hours > 0
