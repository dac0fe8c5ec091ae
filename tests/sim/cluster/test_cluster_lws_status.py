import pytest

from modelplane.sim.cluster.lws_status import SeenGroup, lws_status

NOW_S = 1_750_000_000.0
MOMENT = "2025-06-15T15:06:40Z"


def item(replicas=2, conditions=(), *, partition=0, generation=3):
    rolling = {"rollingUpdateConfiguration": {"partition": partition}}
    return {
        "metadata": {"name": "gang", "generation": generation},
        "spec": {"replicas": replicas, "rolloutStrategy": rolling},
        "status": {"conditions": list(conditions)},
    }


def said(status):
    return {entry["type"]: entry["status"] for entry in status["conditions"]}


READY, OLD, STARTING = (True, True), (True, False), (False, True)


@pytest.mark.parametrize(
    ("case", "groups", "expected"),
    [
        ("nothing yet", [], {"Progressing": "True"}),
        ("all ready", [READY, READY], {"Available": "True"}),
        ("one starts", [READY, STARTING], {"Progressing": "True"}),
        ("one is old", [OLD, READY], {"UpdateInProgress": "True", "Progressing": "True"}),
        ("surplus does not count", [READY, READY, STARTING], {"Available": "True"}),
    ],
)
def test_conditions_that_are_true(case, groups, expected):
    seen = [SeenGroup(number, *group) for number, group in enumerate(groups)]
    assert said(lws_status(item(), len(seen), seen, NOW_S)) == expected, case


def test_none_asked_for_is_available():
    assert said(lws_status(item(replicas=0), 0, [], NOW_S)) == {"Available": "True"}


def test_groups_below_the_partition_need_not_be_new():
    seen = [SeenGroup(0, *OLD), SeenGroup(1, *READY)]
    assert said(lws_status(item(partition=1), 2, seen, NOW_S)) == {"Available": "True"}


def test_what_is_excluded_turns_false_and_keeps_its_reason():
    before = {"type": "Progressing", "status": "True", "reason": "GroupsProgressing", "message": "m"}
    before |= {"observedGeneration": 3, "lastTransitionTime": "2025-01-01T00:00:00Z"}
    status = lws_status(item(conditions=[before]), 2, [SeenGroup(n, *READY) for n in (0, 1)], NOW_S)
    assert status["conditions"][0] == {**before, "status": "False", "lastTransitionTime": MOMENT}
    again = lws_status(item(conditions=status["conditions"]), 2, [SeenGroup(n, *READY) for n in (0, 1)], NOW_S + 60)
    assert again == status


def test_counts():
    seen = [SeenGroup(0, *READY), SeenGroup(1, *OLD), SeenGroup(2, *STARTING)]
    status = lws_status(item(), 4, seen, NOW_S)
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (4, 2, 2)
