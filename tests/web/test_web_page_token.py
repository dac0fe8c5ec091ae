"""The token of a file: read anew each time, and never one that is too short or not there."""

import asyncio

import aiohttp
import pytest
from yarl import URL

from modelplane.web.page_token import PageToken
from modelplane.web.server import serve
from modelplane.web.source import DashboardSource
from tests.support.dashboard_fleet import fleet_store

TOKEN, NEXT = "0123456789abcdef", "fedcba9876543210"
CONTENTS = [
    ("a token", TOKEN.encode(), TOKEN),
    ("with the end of a line", f"{TOKEN}\n".encode(), TOKEN),
    ("empty", b"", ""),
    ("one character too short", TOKEN[1:].encode(), ""),
    ("blanks alone", b" " * 32, ""),
    ("two words", b"0123456789 abcdef", ""),
    ("a line inside", b"01234567\n89abcdef0", ""),
    ("not UTF-8", b"\xff" * 32, ""),
    ("not ASCII", "é".encode() * 32, ""),
]


@pytest.mark.parametrize(("content", "token"), [case[1:] for case in CONTENTS], ids=[case[0] for case in CONTENTS])
def test_what_a_file_has(tmp_path, content, token):
    file = tmp_path / "token"
    file.write_bytes(content)
    assert PageToken.in_file(file).read() == token


def test_the_address_of_a_printed_token_has_it_and_that_of_a_file_does_not(tmp_path):
    assert PageToken.printed("abc").query == "?token=abc"
    assert PageToken.in_file(tmp_path / "token").query == ""


def test_without_a_token_nobody_gets_in_and_a_new_one_ends_the_old(tmp_path):
    file = tmp_path / "token"

    async def main():
        page = await serve(DashboardSource(fleet_store([])), token=PageToken.in_file(file))
        url = URL(page.url)

        async def status(token, cookie):
            headers = {"Cookie": f"modelplane-{url.port}={cookie}"}
            query = {"token": token} if token is not None else {}
            async with (
                aiohttp.ClientSession() as session,
                session.get(url.with_query(query), headers=headers, allow_redirects=False) as answer,
            ):
                return answer.status, str(file) in await answer.text()

        try:
            found = [await status(None, ""), await status("", ""), await status(TOKEN, TOKEN)]
            file.write_text(TOKEN)
            found += [await status(TOKEN, ""), await status(None, TOKEN), await status(None, NEXT)]
            file.write_text(NEXT)
            return [*found, await status(None, TOKEN), await status(None, NEXT)]
        finally:
            await page.close()

    refused, opened, sent = (401, True), (200, False), (302, False)
    assert asyncio.run(main()) == [refused, refused, refused, sent, opened, refused, refused, opened]


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1:40001"])
def test_a_forwarded_port_is_the_one_of_the_cookie(host):
    """`kubectl port-forward 9:8081` of one cluster and 10:8081 of another are two pages of one browser."""

    async def main():
        page = await serve(DashboardSource(fleet_store([])), token=PageToken.printed(TOKEN))
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(page.url, headers={"Host": host}, allow_redirects=False) as answer,
            ):
                return answer.status, answer.headers["Set-Cookie"].partition("=")[0]
        finally:
            await page.close()

    assert asyncio.run(main()) == (302, f"modelplane-{host.partition(':')[2]}")


@pytest.mark.parametrize("host", ["localhost", "localhost:", "localhost:8a", "modelplane-dashboard:8081", "[::1]:8081"])
def test_other_hosts_are_refused(host):
    async def main():
        page = await serve(DashboardSource(fleet_store([])), token=PageToken.printed(TOKEN))
        try:
            async with aiohttp.ClientSession() as session, session.get(page.url, headers={"Host": host}) as answer:
                return answer.status
        finally:
            await page.close()

    assert asyncio.run(main()) == 403
