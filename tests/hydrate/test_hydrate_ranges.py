"""Ranges of a real server: where it redirects, changes its files, or answers with something else."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from modelplane.hydrate.artifact import ArtifactFile
from modelplane.hydrate.errors import SourceChangedError, TryAgainError
from modelplane.hydrate.ranges import RangeReader
from modelplane.hydrate.transport import StatusError

CONTENT = bytes(range(200))


def reader(client):
    return RangeReader(client, lambda _: {"X-Token": "t"})


def read(found, file, start=0, stop=None):
    response = found.open(file, start, stop)
    buffer, content = memoryview(bytearray(64)), b""
    while count := response.readinto(buffer):
        content += bytes(buffer[:count])
    response.close()
    return content


@pytest.mark.parametrize("ranged", [True, False])
@pytest.mark.parametrize(("start", "stop"), [(0, None), (0, 200), (0, 50), (50, 150), (150, None)])
def test_a_range_is_what_was_requested_of_any_server(client, server, ranged, start, stop):
    file = ArtifactFile("f", 200, url=server.add("/f", CONTENT, ranged=ranged))
    # A server without ranges sends on to the end: the fetch takes what it needs of it.
    assert read(reader(client), file, start, stop) == CONTENT[start : stop if ranged else None]
    ((_, _, headers),) = server.requests
    whole = start == 0 and stop in {None, 200}
    wanted = None if whole else f"bytes={start}-{'' if stop is None else stop - 1}"
    assert (headers.get("Range"), headers["X-Token"]) == (wanted, "t")


def redirected(server):
    """A file that is elsewhere on the same server."""
    server.add("/there", CONTENT)
    return ArtifactFile("f", 200, url=server.add("/here", b"", redirect="/there"))


def test_the_target_of_a_redirect_is_remembered_until_it_refuses(client, server):
    found, file = reader(client), redirected(server)
    assert [read(found, file, at, at + 9) for at in (0, 9)] == [CONTENT[:9], CONTENT[9:18]]
    server.faults.statuses.append((403, {}))
    assert read(found, file, 18, 27) == CONTENT[18:27]
    paths = [path for _, path, _ in server.requests]
    assert paths == ["/here", "/there", "/there", "/there", "/here", "/there"]


def test_a_target_that_several_threads_find_expired_is_found_again_by_each(client, server):
    found, file, together, refused = reader(client), redirected(server), Barrier(4), []
    read(found, file, 0, 9)

    def expired(handler, path):
        if path != "/there" or len(refused) == 4:
            return False
        refused.append(path)
        together.wait(10)
        server.reply(handler, 403, b"no")
        return True

    server.handlers.append(expired)
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda at: read(found, file, at, at + 9), (0, 9, 18, 27)))
    assert parts == [CONTENT[at : at + 9] for at in (0, 9, 18, 27)]


def test_another_refusal_of_a_target_is_the_files(client, server):
    found, file = reader(client), redirected(server)
    read(found, file)
    server.faults.statuses.append((400, {}))
    with pytest.raises(StatusError) as caught:
        found.open(file, 0, 9)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("file", "served", "start", "error", "message"),
    [
        ({"etag": "a"}, {"etag": "b"}, 0, SourceChangedError, "f changed at the source: its ETag is b, and was a"),
        ({"size": 300}, {}, 250, SourceChangedError, "f changed at the source"),
        ({"size": 300}, {}, 9, SourceChangedError, "f has 200 bytes at the source, and 300 were listed"),
        ({"size": 300}, {}, 0, SourceChangedError, "f has 200 bytes at the source, and 300 were listed"),
        ({"size": 300}, {"ranged": False, "chunked": True}, 250, TryAgainError, "{url}/f ended too early"),
    ],
)  # fmt: skip
def test_a_file_that_is_another_than_was_listed(client, server, file, served, start, error, message):
    listed = ArtifactFile("f", **{"size": 200, "url": server.add("/f", CONTENT, **served), **file})
    with pytest.raises(error) as caught:
        reader(client).open(listed, start, None)
    assert str(caught.value) == message.format(url=server.url)


@pytest.mark.parametrize("said", ["bytes 5-9/200", "nonsense", None])
def test_a_range_that_was_not_requested_is_tried_again(client, server, said):
    def answer(handler, _path):
        server.reply(handler, 206, CONTENT[:5], {} if said is None else {"Content-Range": said})
        return True

    server.handlers.append(answer)
    with pytest.raises(TryAgainError) as caught:
        reader(client).open(ArtifactFile("f", 200, url=f"{server.url}/f"), 9, 14)
    assert str(caught.value) == f"{server.url}/f answered with another range than it was asked for"


def test_a_length_that_the_server_does_not_say_is_no_fault(client, server):
    def answer(handler, _path):
        server.reply(handler, 206, CONTENT[9:14], {"Content-Range": "bytes 9-13/*"})
        return True

    server.handlers.append(answer)
    assert read(reader(client), ArtifactFile("f", 200, url=f"{server.url}/f"), 9, 14) == CONTENT[9:14]
