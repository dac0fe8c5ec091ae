from datetime import UTC, datetime

from modelplane.router.wall_clock import WallClock


def test_the_time_of_day_is_that_of_its_second():
    times = iter([1_700_000_000.0, 1_700_000_000.999, 1_700_000_001.0, 1_699_999_999.5])
    clock = WallClock(lambda: next(times))
    assert [clock() for _ in range(4)] == [
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:21Z",
        "2023-11-14T22:13:19Z",
    ]


def test_it_is_the_time_of_this_machine():
    before = datetime.now(UTC).replace(microsecond=0)
    assert before <= datetime.fromisoformat(WallClock()()) <= datetime.now(UTC)
