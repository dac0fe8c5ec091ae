"""Bytes that are no HTTP leave no trace in the log of a server; its own defects do."""

import asyncio
import logging

import pytest
from aiohttp import web

from modelplane.cli._malformed_requests import _is_worth_a_line, mute_malformed_requests

MALFORMED = [
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", id="a header with a NUL"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", id="a header that is too long"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", id="TLS"),
]


@pytest.fixture
def unmuted():
    """Whatever a test before has run in this process."""
    logging.getLogger("aiohttp.server").removeFilter(_is_worth_a_line)
    yield
    logging.getLogger("aiohttp.server").removeFilter(_is_worth_a_line)


@pytest.fixture
def muted(unmuted):  # noqa: ARG001  it comes first
    mute_malformed_requests()
    mute_malformed_requests()


async def fails(_request):
    raise RuntimeError("a defect")


def answer_to(sent):
    """The status line."""

    async def story():
        application = web.Application()
        application.router.add_get("/", fails)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(sent)
        line = await reader.readline()
        writer.close()
        await runner.cleanup()
        return line

    return asyncio.run(story())


@pytest.mark.usefixtures("muted")
@pytest.mark.parametrize("sent", MALFORMED)
def test_what_is_no_http_is_refused_and_not_logged(caplog, sent):
    assert b" 400 " in answer_to(sent)
    assert caplog.records == []


@pytest.mark.usefixtures("unmuted")
def test_otherwise_each_is_a_traceback(caplog):
    assert b" 400 " in answer_to(MALFORMED[0].values[0])
    assert "Traceback" in caplog.text


@pytest.mark.usefixtures("muted")
def test_a_defect_is_logged(caplog):
    assert b" 500 " in answer_to(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert "a defect" in caplog.text
