"""The page: escaped, without script, and for whoever has the token only."""

import asyncio
import logging
from html.parser import HTMLParser

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from modelplane.k8s.admission.decode import escape
from modelplane.views.caches import CacheClusterRow, CacheRow
from modelplane.views.health import ObjectHealth
from modelplane.views.overview import ClusterRow, DeploymentRow, Overview, ReplicaRow, ServiceRow
from modelplane.web.page import render
from modelplane.web.server import serve
from tests.support.hostile_texts import HOSTILE


def everything(text):
    health = ObjectHealth("NotReady", text)
    return Overview(
        clusters=(ClusterRow(text, health, 1, 2, 3, (text, text)),),
        deployments=(DeploymentRow(text, text, health, 3, 2, 1, text),),
        replicas=(ReplicaRow(text, text, health, text, text),),
        services=(ServiceRow(text, text, health, text, 2, 1),),
        caches=(CacheRow(text, text, health, text, text, text, text, 1, (cache_cluster(text),)),),
    )


def cache_cluster(text):
    return CacheClusterRow(text, text, text, text, 3, 1, text, text)


class Structure(HTMLParser):
    """A page without its texts: every tag with its attributes, and declarations; and the texts for themselves."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *attrs))

    def handle_endtag(self, tag):
        self.tags.append(("/", tag))

    def handle_comment(self, data):
        self.tags.append(("comment", data))

    handle_decl = handle_pi = unknown_decl = handle_comment

    def handle_data(self, data):
        self.texts.append(data)


PLAIN = Structure(render(everything("x")))


def check_shown_as_text(text):
    page = render(everything(text))
    found = Structure(page)
    assert found.tags == PLAIN.tags
    assert found.texts == [each if each != "x" else escape(text) for each in with_text(PLAIN.texts, text)]
    assert page.isprintable()
    page.encode()


def with_text(texts, text):
    """Cells of several texts."""
    joined = {"x/x": f"{escape(text)}/{escape(text)}", "x, x": escape(f"{text}, {text}")}
    return [joined.get(each, each) for each in texts]


def test_there_are_enough_hostile_texts():
    assert len(set(HOSTILE)) == len(HOSTILE) >= 70


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_nothing_an_object_says_becomes_markup(text):
    check_shown_as_text(text)


@given(st.text(min_size=1))
def test_any_text_is_shown_as_text(text):
    check_shown_as_text(text)


def test_the_page_shows_what_is_there_and_says_when_nothing_is():
    page = render(Overview(clusters=(ClusterRow("east", ObjectHealth("Ready", ""), 2, 14, 2, ("h200",)),)))
    assert "<td>east</td>" in page
    assert page.count('<p class="none">none</p>') == 3
    assert "<script" not in page


async def fetch(session, url, **options):
    async with session.get(url, allow_redirects=False, **options) as answer:
        return answer.status, await answer.text(), answer.headers


def test_the_token_opens_the_page_once_and_the_cookie_keeps_it_open():
    async def main():
        page = await serve(Overview, token="secret")
        plain = page.url.partition("?")[0]
        try:
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                assert (await fetch(session, plain))[0] == 401
                for wrong in ("wrong", "secre", "secretjunk", "", "%ff", "secret%ff", "%ED%A0%80"):
                    assert (await fetch(session, URL(f"{plain}?token={wrong}", encoded=True)))[0] == 401
                status, _, headers = await fetch(session, page.url)
                assert (status, headers["Location"]) == (302, "/")
                assert "HttpOnly" in headers["Set-Cookie"]
                assert "SameSite=Strict" in headers["Set-Cookie"]
                status, text, headers = await fetch(session, plain)
                assert (status, "Modelplane" in text) == (200, True)
                assert "default-src 'none'" in headers["Content-Security-Policy"]
                assert (await fetch(session, f"{plain}style.css"))[0] == 200
                assert (await fetch(session, plain, headers={"Host": "evil.example.com:80"}))[0] == 403
                async with session.post(plain) as answer:
                    assert answer.status == 405
        finally:
            await page.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\nCookie: modelplane=\xff",
        b"GET / HTTP/1.1\r\nCookie: modelplane=secret\xff",
        b"GET / HTTP/1.1\r\nCookie: modelplane=secretjunk",
        b"GET / HTTP/1.1\r\nCookie: modelplane=secre",
        b'GET / HTTP/1.1\r\nCookie: modelplane="\\377"',
        b"GET /?token=%ff HTTP/1.1\r\nCookie: a=b",
        b"GET /style.css HTTP/1.1\r\nCookie: modelplane=\xed\xa0\x80",
    ],
)
def test_a_cookie_of_any_bytes_is_refused_without_a_trace_in_the_log(caplog, line):
    async def main():
        page = await serve(Overview, token="secret")
        url = URL(page.url)
        try:
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(line + f"\r\nHost: {url.authority}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
        finally:
            await page.close()
        assert answer.startswith(b"HTTP/1.1 401 "), answer[:200]
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]

    asyncio.run(main())
