"""HTTP/1.1 responses, whole and in any pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.datalayer.scrape.responses import BadResponse, ResponseReader

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"
TRAILERS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH
CLOSED = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"
UNTIL_END = b"HTTP/1.1 200\r\n\r\nhello"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def answers(pieces, limit=100):
    reader = ResponseReader(limit)
    found = [reader.feed(piece) for piece in pieces]
    found.append(reader.end())
    return [(one.status, one.body, one.reusable) for one in found if one is not None]


WHOLE = [
    (LENGTH, (200, b"hello", True)),
    (CHUNKED, (200, b"hello", True)),
    (TRAILERS, (200, b"hello", True)),
    (CONTINUED, (200, b"hello", True)),
    (CLOSED, (404, b"hello", False)),
    (OLD, (200, b"hello", False)),
    (UNTIL_END, (200, b"hello", True)),
    (EMPTY, (200, b"", True)),
]


@pytest.mark.parametrize(("data", "answer"), WHOLE)
def test_whole(data, answer):
    assert answers([data]) == [answer]


@given(st.sampled_from(WHOLE), st.lists(st.integers(0, 140), max_size=6))
def test_in_any_pieces(case, cuts):
    data, answer = case
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    assert answers(pieces) == [answer]


def test_one_after_another():
    assert answers([LENGTH, CHUNKED, LENGTH]) == [(200, b"hello", True)] * 3


def test_more_than_the_response_ends_the_connection():
    assert answers([LENGTH + b"x"]) == [(200, b"hello", False)]


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 300,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"28\r\n" + b"x" * 40 + b"\r\n28\r\n" + b"x" * 40 + b"\r\n28\r\n" + b"x" * 40 + b"\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 40_000,
    ],
)
def test_refused(data):
    with pytest.raises(BadResponse):
        answers([data])


@given(
    st.lists(st.one_of(st.binary(max_size=30), st.sampled_from([LENGTH, CHUNKED, b"\r\n\r\n", b"0\r\n"])), max_size=8)
)
def test_nothing_but_a_refusal_comes_of_bad_bytes(pieces):
    reader = ResponseReader(64)
    try:
        for piece in pieces:
            found = reader.feed(piece)
            assert found is None or len(found.body) <= 64
        reader.end()
    except BadResponse:
        pass
