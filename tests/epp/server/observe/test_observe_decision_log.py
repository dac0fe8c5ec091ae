"""Decisions as lines of JSON."""

import json

import pytest

from modelplane.epp.scheduling.decisions import Decision
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.scheduling.outcomes import Outcome
from modelplane.epp.scheduling.requests import Request
from modelplane.epp.server.observe import DecisionLog, DecisionSteps, PickObserver
from modelplane.framework import Refusal, RefusalCode

ENDPOINTS = tuple(Endpoint(f"team/p-{at}", f"10.0.0.{at}:8000") for at in range(8))
PICKED = Decision(
    Outcome.PICKED,
    ((ENDPOINTS[3],),),
    "decode",
    (("prefill", (ENDPOINTS[1],)),),
    shadows=(("cheaper", (ENDPOINTS[5],)), ("strict", ())),
)
REQUEST = Request("r-1", "m", prompts=(b"secret",), headers={"authorization": "secret"}, fairness_id="t", priority=2)


def heard_all():
    steps = DecisionSteps(logged=True)
    steps.refused("decode", ENDPOINTS[0], Refusal("by-role", RefusalCode.UNRESOLVABLE, "no"))
    for at, endpoint in enumerate(ENDPOINTS[1:], 1):
        steps.scored("decode", endpoint, at / 10, (("queue", at / 10), ("kv", 0.123456)))
    steps.picked("decode", ENDPOINTS[3])
    return steps


def test_a_decision_with_its_best_scores():
    lines = []
    DecisionLog(lines.append, share=1.0, wall_clock=lambda: 100.5).decided(REQUEST, PICKED, 0.00002, heard_all(), 12.5)
    (line,) = lines
    assert b"secret" not in line
    assert json.loads(line) == {
        "event": "decision",
        "at": "1970-01-01T00:01:40.500000+00:00",
        "request": "r-1",
        "model": "m",
        "tenant": "t",
        "priority": 2,
        "outcome": "Picked",
        "status": 200,
        "spentMicros": 20.0,
        "endpoint": "team/p-3",
        "address": "10.0.0.3:8000",
        "profile": "decode",
        "others": {"prefill": ["team/p-1"]},
        "shadows": {"cheaper": ["team/p-5"], "strict": []},
        "profiles": {
            "decode": {
                "candidates": 7,
                "best": [
                    {"endpoint": f"team/p-{at}", "total": at / 10, "scores": {"queue": at / 10, "kv": 0.1235}}
                    for at in (7, 6, 5, 4, 3)
                ],
                "refused": {"by-role": 1},
            }
        },
        "config": "",
    }


def test_a_request_that_goes_nowhere_is_logged_whatever_was_drawn():
    lines = []
    observer = PickObserver(log=DecisionLog(lines.append, share=0.0))
    assert observer.record_steps(REQUEST, 0.0) is None
    observer.decided(REQUEST, PICKED, 0.1)
    observer.decided(REQUEST, Decision(Outcome.NO_ENDPOINTS, why="no endpoint is ready"), 0.1)
    (line,) = map(json.loads, lines)
    assert (line["outcome"], line["status"], line["why"]) == ("NoEndpoints", 503, "no endpoint is ready")


def test_one_that_was_sent_on_and_had_to_make_room_has_a_line_of_its_end():
    lines = []
    observer = PickObserver(log=DecisionLog(lines.append, share=0.0))
    observer.evicted(REQUEST)
    (line,) = map(json.loads, lines)
    assert (line["event"], line["request"], line["outcome"], line["status"]) == ("ending", "r-1", "Evicted", 429)


def test_a_share_is_drawn():
    observer = PickObserver(log=DecisionLog(lambda _: None, share=0.25))
    drawn = [observer.record_steps(REQUEST, chance) is not None for chance in (0.0, 0.24, 0.25, 0.9)]
    assert drawn == [True, True, False, False]
    assert PickObserver().record_steps(REQUEST, 0.0) is None


def test_lines_a_second_are_bounded_and_the_rest_counted():
    lines = []
    log = DecisionLog(lines.append, share=1.0, most_per_s=10)
    for _ in range(50):
        log.decided(REQUEST, PICKED, 0.1, heard_all(), 100.0)
    assert (len(lines), log.dropped) == (10, 40)
    for _ in range(50):
        log.decided(REQUEST, PICKED, 0.1, heard_all(), 100.5)
    assert len(lines) == 15


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_a_share(share):
    with pytest.raises(ValueError, match="share"):
        DecisionLog(print, share=share)
