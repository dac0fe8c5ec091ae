"""Envoy's access log as it grows: which lines are requests, and that none is lost or read twice."""

import json

import pytest

from modelplane.envoy.access_log import AccessLogReader, ServedRequest, read_line


def line(**fields):
    given = {
        "gateway": "cluster.east",
        "status": 200,
        "replica": "default/chat-1",
        "first_byte_ms": 12,
        "duration_ms": 80,
        "path": "/v1/completions",
    }
    return json.dumps({**given, **fields}).encode()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (line(), ServedRequest("default/chat-1", False, 12, 80, 200)),
        (line(status=503), ServedRequest("default/chat-1", True, 12, 80, 503)),
        (line(status=0, first_byte_ms=None), ServedRequest("default/chat-1", True, None, 80, 0)),
        (line(status=400), ServedRequest("default/chat-1", False, 12, 80, 400)),
        (line(gateway="fleet"), None),
        (line(replica=None), None),
        (line(status="many"), None),
        (b"", None),
        (b"{", None),
        (b"\xff", None),
    ],
)
def test_what_is_a_request_to_a_replica(given, expected):
    assert read_line(given) == expected


def test_a_log_is_read_from_its_end_and_across_rotation(tmp_path):
    path = tmp_path / "access.log"
    path.write_bytes(line(replica="a/old") + b"\n")
    reader = AccessLogReader(path)

    def names():
        return [request.replica for request in reader.read()]

    assert names() == []
    with path.open("ab") as log:
        log.write(line(replica="a/1") + b"\n" + line(replica="a/2")[:20])
        log.flush()
        assert names() == ["a/1"]
        log.write(line(replica="a/2")[20:] + b"\n")
        log.flush()
        path.rename(tmp_path / "access.log.1")
        log.write(line(replica="a/3") + b"\n")
        log.flush()
        assert names() == ["a/2", "a/3"]
        path.write_bytes(line(replica="a/4") + b"\n")
        log.write(line(replica="a/late") + b"\n")
        log.flush()
        assert names() == ["a/late", "a/4"]
    assert names() == []
    reader.close()


def test_a_log_that_begins_later_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "access.log"
    reader = AccessLogReader(path)
    assert list(reader.read()) == []
    path.write_bytes(line() + b"\n")
    assert [request.replica for request in reader.read()] == ["default/chat-1"]
    reader.close()
