import pytest

from modelplane.api.models import Toleration
from modelplane.placement.taints import FOREVER, drains_at, keeping_away, tolerates
from modelplane.testing.fleets import taint, tolerate


@pytest.mark.parametrize(
    ("toleration", "found", "expected"),
    [
        pytest.param(Toleration(key="a", value="1"), taint("a", value="1"), True, id="equal key and value"),
        pytest.param(Toleration(key="a", value="2"), taint("a", value="1"), False, id="another value"),
        pytest.param(Toleration(key="b", value="1"), taint("a", value="1"), False, id="another key"),
        pytest.param(Toleration(key="a"), taint("a"), True, id="no value equals an empty one"),
        pytest.param(Toleration(key="a", operator="Exists"), taint("a", value="1"), True, id="exists"),
        pytest.param(Toleration(operator="Exists"), taint("a", value="1"), True, id="exists without a key: any"),
        pytest.param(Toleration(), taint("a"), False, id="equal needs a key"),
        pytest.param(
            Toleration(key="a", operator="Exists", effect="NoExecute"), taint("a", "NoSchedule"), False, id="effect"
        ),
        pytest.param(Toleration(key="a", operator="Exists"), taint("a", "NoExecute"), True, id="no effect: any"),
    ],
)
def test_what_a_toleration_tolerates(toleration, found, expected):
    assert tolerates(toleration, found) is expected


@pytest.mark.parametrize(
    ("found", "tolerations", "expected"),
    [
        pytest.param(taint("a"), (), FOREVER, id="NoSchedule never drains"),
        pytest.param(taint("a", "NoExecute"), (), 0.0, id="not tolerated: at once"),
        pytest.param(taint("a", "NoExecute", since=5.0), (tolerate("b"),), 0.0, id="another is tolerated"),
        pytest.param(taint("a", "NoExecute", since=5.0), (tolerate("a"),), FOREVER, id="tolerated for good"),
        pytest.param(
            taint("a", "NoExecute", since=5.0), (tolerate("a", "NoExecute", seconds=9),), 14.0, id="for a time"
        ),
        pytest.param(
            taint("a", "NoExecute", since=5.0),
            (tolerate("a", "NoExecute", seconds=9), tolerate("a", "NoExecute", seconds=3), tolerate("a")),
            8.0,
            id="the shortest of several times",
        ),
        pytest.param(taint("a", "NoExecute"), (tolerate("a", "NoExecute", seconds=9),), FOREVER, id="age unknown"),
    ],
)
def test_when_a_taint_drains(found, tolerations, expected):
    assert drains_at(found, tolerations) == expected


def test_what_would_be_drained_in_time_is_kept_away_from_the_start():
    burning = taint("a", "NoExecute", since=5.0)
    assert keeping_away([burning], (tolerate("a", "NoExecute", seconds=9),)) is burning
    assert keeping_away([burning], (tolerate("a"),)) is None
    assert keeping_away([burning], (tolerate("a"), tolerate("a", "NoExecute", seconds=9))) is burning
    assert keeping_away([burning], (tolerate("a"), tolerate("b", "NoExecute", seconds=9))) is None
    assert keeping_away([taint("b"), burning], ()).key == "b"
