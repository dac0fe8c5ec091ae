"""The sentence of a step, from what was recorded around it."""

import pytest

from modelplane.testing.world.scenario_record import ReplicaRecord
from modelplane.testing.world.scenario_steps import read_step
from modelplane.testing.world.step_summaries import StepWindow, summary_of
from modelplane.testing.world.store import ObjectId
from modelplane.views.simulation_report import ReplicaPoint, RequestCounts

CHAT = ObjectId("ModelDeployment", "team", "chat")


def replica(name, cluster, placed_s, left_s=None):
    return ReplicaRecord(f"team/{name}", "team/chat", cluster, placed_s, "", left_s=left_s)


def window(
    step, replicas=(), points=(), *, until_s=900.0, clusters=(), failed=0, shed=0, ttft=(None, None), traffic=True
):
    shown = [ReplicaPoint(at_s=at, wanted=wanted, placed=ready, ready=ready) for at, wanted, ready in points]
    return StepWindow(
        step=read_step(step),
        until_s=until_s,
        clusters=clusters,
        replicas=replicas,
        points={CHAT: shown},
        counts=RequestCounts(requests=1000, failed=failed, shed=shed),
        ttft_before_ms=ttft[0],
        ttft_after_ms=ttft[1],
        has_traffic=traffic,
    )


EIGHT = [*(replica(f"e{at}", "east", 5.0) for at in range(3)), *(replica(f"w{at}", "west", 5.0) for at in range(5))]
MOVED = [replica(f"n{at}", "west", 430.0) for at in range(3)]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            window(
                "300 lose cluster east", [*EIGHT, *MOVED], [(5, 8, 8), (300.5, 8, 5), (392, 8, 8)],
                clusters=("east",), failed=41,
            ),
            "east lost at 00:05: 3 of 8 replicas moved to west, all 8 ready after 92 s, 41 requests failed",
        ),
        (
            window(
                "7205 lose cluster east", [*EIGHT, replica("n", "west", 7300.0)], [(5, 8, 8), (7206, 8, 6)],
                clusters=("east",), until_s=9000.0, failed=1, shed=2, ttft=(200, 1400),
            ),
            (
                "east lost at 02:00:05: 1 of 8 replicas moved to west, 2 not replaced, 2 of 8 not ready at 02:30, "
                "1 request failed, 2 requests shed, TTFT p95 200 ms before and 1.4 s after"
            ),
        ),
        (
            window("300 double team/chat", [*EIGHT, *MOVED], [(5, 8, 8)], ttft=(200, 210)),
            "replicas of team/chat doubled at 00:05: 3 replicas placed on west, none of 1000 requests lost",
        ),
        (
            window(
                "300 drain cluster east", [replica("a", "east", 5.0, 400.0), replica("b", "west", 310.0),
                replica("c", "south", 310.0)], [(5, 1, 1)], clusters=("east",), traffic=False,
            ),
            "east drained at 00:05: 1 of 1 replica moved to south (1), west (1), 1 more placed",
        ),
        (
            window("30 scale team/chat 0", [replica("a", "east", 5.0, 31.0)], [(5, 1, 1), (30, 0, 0)], traffic=False),
            "team/chat scaled to 0 at 00:00:30: 1 of 1 replica gone and not replaced",
        ),
        (
            window("300 restart plane", EIGHT, [(5, 8, 8)], traffic=False),
            "control plane restarted at 00:05: no replica moved",
        ),
        (
            window("300 traffic team/chat 2", EIGHT, [(5, 8, 8)]),
            "traffic of team/chat set to 2 times its curve at 00:05: no replica moved, none of 1000 requests lost",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value.step),
)  # fmt: skip
def test_sentences(found, sentence):
    assert summary_of(found) == sentence


def test_a_fleet_that_was_never_short_has_not_recovered():
    assert window("300 restart plane", EIGHT, [(5, 8, 8)]).recovered_s is None
    assert window("300 lose cluster east", EIGHT, [(5, 8, 8), (301, 8, 5)]).recovered_s is None
    assert window("300 lose cluster east", EIGHT, [(5, 8, 8), (301, 8, 5), (310, 8, 8)]).recovered_s == 10.0


@pytest.mark.parametrize(
    "step",
    [
        "1 lose region a", "1 recover region a", "1 recover cluster a", "1 delete cluster a", "1 undrain cluster a",
        "1 cordon cluster a", "1 uncordon cluster a", "1 add pool a/b c 1", "1 resize pool a/b 2", "1 roll a/b i:2",
    ],
)  # fmt: skip
def test_every_step_has_a_sentence(step):
    assert " at 00:00:01: " in summary_of(window(step, traffic=False))
