"""Values of the picker's command line."""

import pytest

from modelplane.api.errors import InputError
from modelplane.epp.server import flags


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (flags.duration, "30s", 30.0),
        (flags.duration, "250ms", 0.25),
        (flags.duration, "1m30s", 90.0),
        (flags.duration, "1.5h", 5400.0),
        (flags.duration, "5", 5.0),
        (flags.size, "32Mi", 32 << 20),
        (flags.size, "10M", 10_000_000),
        (flags.size, "7", 7),
        (flags.truth, "true", True),
        (flags.truth, "False", False),
        (flags.share, "0.25", 0.25),
        (flags.share, "1", 1.0),
        (flags.port, "9002", 9002),
        (flags.port, "0", 0),
        (flags.ports, "8000, 8001", (8000, 8001)),
        (flags.selector, "a=b, c/d=e", "a=b,c/d=e"),
        (flags.pool, "ns/name", ("ns", "name")),
        (flags.pool, "name", ("default", "name")),
    ],
)
def test_values(read, text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (flags.duration, ""),
        (flags.duration, "soon"),
        (flags.duration, "5x"),
        (flags.duration, "-5s"),
        (flags.size, "many"),
        (flags.size, "1.5Mi"),
        (flags.truth, "maybe"),
        (flags.share, "1.5"),
        (flags.share, "some"),
        (flags.share, "nan"),
        (flags.port, "65536"),
        (flags.port, "x"),
        (flags.ports, ""),
        (flags.ports, "8000,8000"),
        (flags.ports, "0"),
        (flags.ports, ",".join(map(str, range(1, 10)))),
        (flags.selector, "a"),
        (flags.selector, "=b"),
        (flags.pool, "/name"),
        (flags.pool, "a/b/c"),
        (flags.pool, "ns/"),
    ],
)
def test_values_that_are_none(read, text):
    with pytest.raises(InputError):
        read(text)


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("64", 64), ("auto", 6)])
def test_a_number_of_workers(text, count):
    assert flags.worker_count(text, lambda: 6) == count


def test_no_more_workers_than_there_may_be():
    assert flags.worker_count("auto", lambda: 500) == 64


@pytest.mark.parametrize("text", ["0", "65", "-1", "2.5", "", "Auto", "²"])
def test_no_number_of_workers(text):
    with pytest.raises(InputError, match=r"--workers: .* is neither auto nor a number from 1 to 64"):
        flags.worker_count(text, lambda: 6)
