"""Scenarios: what happens to a fleet in virtual time, decided by the real core."""

from pathlib import Path

import pytest

from modelplane.api.errors import InputError
from modelplane.cli.manifests import read_documents
from modelplane.compose.context import Context
from modelplane.testing.world.scenario import ScenarioRow, read_step, run_scenario

QUICKSTART = [
    document.value
    for document in read_documents([Path(__file__).resolve().parents[3] / "examples" / "quickstart"])
    if isinstance(document.value, dict)
]
GRACE_S = 300.0
NAME = "default/qwen3-8b"


def run(*steps, seconds=200.0, seed=0):
    return run_scenario(QUICKSTART, [read_step(step) for step in steps], seconds=seconds, seed=seed)


def row(wanted, clusters):
    placed = sum(clusters.values())
    return ScenarioRow(NAME, wanted, placed, placed, clusters, "Ready")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), row(2, {"east": 1, "west": 1})),
        (("30 double default/qwen3-8b",), row(4, {"east": 2, "west": 2})),
        (("30 scale qwen3-8b 0",), row(0, {})),
        (("30 drain cluster east",), row(2, {"west": 2})),
        (("30 cordon cluster east", "60 scale default/qwen3-8b 3"), row(3, {"east": 1, "west": 2})),
        (
            ("30 cordon cluster east", "40 cordon cluster west", "50 uncordon cluster west", "60 double qwen3-8b"),
            row(4, {"east": 1, "west": 3}),
        ),
        (("30 drain cluster east", "60 undrain cluster east"), row(2, {"west": 2})),
        (("30 restart plane",), row(2, {"east": 1, "west": 1})),
        (("10 resize pool west/h200 0", "40 scale default/qwen3-8b 3"), row(3, {"east": 3})),
        (("30 delete cluster east", "40 resize pool west/h200 4"), row(2, {"west": 2})),
    ],
    ids=lambda value: ", ".join(value) or "nothing" if isinstance(value, tuple) else "",
)
def test_what_becomes_of_a_fleet(steps, expected):
    outcome = run(*steps)
    (found,) = outcome.rows
    assert (outcome.violation, outcome.quiet) == ("", True)
    assert found == expected


def test_a_cluster_that_is_lost_is_replaced_after_the_grace_and_the_story_says_so():
    outcome = run("60 lose cluster east", "500 recover cluster east", seconds=600.0)
    told = [text for _, text in outcome.story]
    assert (outcome.rows, outcome.violation) == ((row(2, {"west": 2}),), "")
    assert [text for text in told if "serve" in text] == [
        f"{NAME}: {number} of 2 replicas serve" for number in (2, 1, 2)
    ]
    moved = [when for when, text in outcome.story if text.endswith("goes to west")]
    assert moved[-1] == pytest.approx(60.0 + GRACE_S)


def test_a_new_pool_takes_what_had_no_room():
    outcome = run("10 scale qwen3-8b 40", "100 add pool east/more h200-8x 2", seconds=200.0)
    (found,) = outcome.rows
    assert (found.placed, found.serving, found.clusters) == (40, 40, {"east": 24, "west": 16})


def test_a_seed_is_the_same_story_each_time():
    assert run("60 delete cluster east", seed=5) == run("60 delete cluster east", seed=5)


def test_a_rule_that_is_broken_ends_it(monkeypatch):
    monkeypatch.setattr(Context, "namespace", "mp-shared")
    assert run().violation.startswith("tenants: ")


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("lose cluster east", "it begins with its second"),
        ("", "it begins with its second"),
        ("60 burn cluster east", "step `burn cluster east` is none of: lose cluster NAME, "),
        ("60 lose cluster", "is none of"),
        ("60 add pool east/x h200-8x", "is none of"),
        ("60 lose cluster nowhere", "there is no InferenceCluster nowhere; there are east, west"),
        ("60 scale qwen3-8b many", "'many' is not a whole number"),
        ("60 scale other/qwen3-8b 1", "there is no ModelDeployment qwen3-8b"),
        ("60 resize pool h200 1", "a pool is named as CLUSTER/POOL"),
        ("60 resize pool east/x 1", "cluster east has no pool x"),
    ],
)
def test_steps_that_are_refused(step, problem):
    with pytest.raises(InputError) as refused:
        run(step)
    assert problem in str(refused.value)
