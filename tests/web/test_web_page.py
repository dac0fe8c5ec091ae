"""What the dashboard sends: texts that print, and for whoever has the token and comes from its own page only."""

import asyncio
import json
import logging
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from modelplane.k8s.admission.decode import escape
from modelplane.web.page_token import PageToken
from modelplane.web.pages import VIEWS, view_json
from modelplane.web.paging import ViewQuery
from modelplane.web.server import serve
from modelplane.web.snapshot import DashboardSnapshot
from modelplane.web.source import DashboardSource
from tests.support.dashboard_fleet import (
    NOW,
    by_kind,
    cache,
    cluster,
    deployment,
    endpoint,
    event,
    fleet_store,
    inference_class,
    not_ready,
    pool,
    replica,
    service,
)
from tests.support.hostile_texts import HOSTILE

MARK = "bZq9e"


def everything(text, name):
    """Every field of every kind says this text, where a field may say anything; the rest, that there is a name."""
    bad = not_ready(text, text, text)
    tier = {"name": name, "group": text, "cluster": text, "sharePermille": 1000, "reason": text, "message": text}
    on = {"name": text, "phase": "Hydrating", "reason": text, "message": text, "resolvedDigest": text}
    candidate = {"cluster": text, "pool": text, "verdict": "Refused", "filter": text, "reason": text, "score": text}
    lost = {"reason": text, "replicas": 1, "cluster": text, "since": text, "message": text, "replacedAt": text}
    revision = {"revision": 1, "hash": text, "template": text, "createdAt": text, "images": [text], "changeCause": text}
    drain = {"summary": text, "deadline": text, "replicas": 1, "total": 2}
    bound = [{"pool": name, "node": text, "devices": 1}]
    spec = {"taints": [{"key": text, "value": text, "effect": "NoSchedule"}]}
    yield inference_class(name)
    yield cluster(
        name, {**pool(name), "className": name}, condition=bad, labels={text: text}, drain=drain, boundPods=bound,
        kubernetesVersion=text, spec=spec,
    )  # fmt: skip
    yield deployment(
        name, 1, name, conditions=[bad], reason=text, message=text, notReady=[lost], revisions=[revision],
        placement={"summary": text, "candidates": [candidate]},
    )  # fmt: skip
    yield replica(name, name, name, 0, bad, namespace=name, reason=text, message=text, since=text)
    yield endpoint(name, name, name, name, namespace=name)
    yield service(name, name, [{"priority": 0, "sharePercent": 100, "endpoints": [tier]}], name, bad, text)
    yield cache(name, on, namespace=name, condition=bad)
    yield event(text, text, text, text, text, text, text, namespace=text)


def sent(text, name):
    """Every view of that fleet, as a reader of JSON has it."""
    snapshot = DashboardSnapshot.of(by_kind(everything(text, name)), now=NOW, gateway=text)
    named = ViewQuery(namespace=name, name=name)
    queries = {view: named if view in {"deployment", "service"} else ViewQuery(name=name) for view in VIEWS}
    return {view: json.loads(view_json(view, snapshot, query)) for view, query in queries.items()}


PLAIN = sent(MARK, MARK)
NAMED = sent(MARK, "name")
"""For texts that cannot be encoded, and so cannot be names."""


def with_text(value, text):
    if isinstance(value, str):
        return value.replace(MARK, escape(text))
    if isinstance(value, dict):
        return {with_text(key, text): with_text(inner, text) for key, inner in value.items()}
    return [with_text(each, text) for each in value] if isinstance(value, list) else value


def strings(value):
    if isinstance(value, str):
        yield value
    for inner in value.items() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from strings(inner)


def check_sent_as_text(text):
    shown = f"b{text}e"  # sentences lose spaces and colons at their ends
    encodable = not any("\ud800" <= each <= "\udfff" for each in shown)
    found = sent(shown, shown if encodable else "name")
    assert found == with_text(PLAIN if encodable else NAMED, shown)
    assert all(each.isprintable() for each in strings(found))


def test_there_are_enough_hostile_texts_and_every_view_has_them():
    assert len(set(HOSTILE)) == len(HOSTILE) >= 70
    assert {name: MARK in json.dumps(found) for name, found in PLAIN.items()} == dict.fromkeys(VIEWS, True)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_an_object_says_is_sent_as_printable_text(text):
    check_sent_as_text(text)


@given(st.text(min_size=1))
def test_any_text_is_sent_as_printable_text(text):
    check_sent_as_text(text)


async def fetch(session, url, **options):
    async with session.get(url, allow_redirects=False, **options) as answer:
        return answer.status, await answer.text(), answer.headers


def test_the_token_opens_the_page_once_and_the_cookie_keeps_it_open():
    async def main():
        page = await serve(DashboardSource(fleet_store([])), token=PageToken.printed("secret"))
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
                assert "unsafe" not in headers["Content-Security-Policy"]
                assert (await fetch(session, f"{plain}app.css"))[0] == 200
                assert (await fetch(session, plain, headers={"Host": "evil.example.com:80"}))[0] == 403
                async with session.post(plain) as answer:
                    assert answer.status == 405
        finally:
            await page.close()

    asyncio.run(main())


def test_two_planes_of_a_machine_do_not_log_each_other_out():
    async def main():
        pages = [
            await serve(DashboardSource(fleet_store([])), token=PageToken.printed(token)) for token in ("one", "two")
        ]
        try:
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                for page in pages:
                    assert (await fetch(session, page.url))[0] == 302
                opened = [(await fetch(session, page.url.partition("?")[0]))[0] for page in pages]
        finally:
            for page in pages:
                await page.close()
        assert opened == [200, 200]

    asyncio.run(main())


ORIGINS = [
    ("no origin: another program", {}, 200),
    ("its own page", {"Origin": "http://{host}", "Sec-Fetch-Site": "same-origin"}, 200),
    ("typed by the user", {"Sec-Fetch-Site": "none"}, 200),
    ("another port of this machine", {"Origin": "http://127.0.0.1:1"}, 403),
    ("another site", {"Origin": "https://evil.example.com"}, 403),
    ("a sandboxed frame", {"Origin": "null"}, 403),
    ("a link from another site", {"Sec-Fetch-Site": "cross-site"}, 403),
    ("another port, without an origin", {"Sec-Fetch-Site": "same-site"}, 403),
]


@pytest.mark.parametrize(("headers", "status"), [case[1:] for case in ORIGINS], ids=[case[0] for case in ORIGINS])
def test_pages_of_other_origins_get_nothing(headers, status):
    async def main():
        page = await serve(DashboardSource(fleet_store([])), token=PageToken.printed("secret"))
        url = URL(page.url)
        given = {name: value.format(host=url.authority) for name, value in headers.items()}
        try:
            async with aiohttp.ClientSession(cookies={f"modelplane-{url.port}": "secret"}) as session:
                found = await fetch(session, url.origin() / "api" / "summary", headers=given)
        finally:
            await page.close()
        assert found[0] == status

    asyncio.run(main())


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\nCookie: modelplane-%d=\xff",
        b"GET / HTTP/1.1\r\nCookie: modelplane-%d=secret\xff",
        b"GET / HTTP/1.1\r\nCookie: modelplane-%d=secretjunk",
        b"GET / HTTP/1.1\r\nCookie: modelplane-%d=secre",
        b"GET / HTTP/1.1\r\nCookie: modelplane=secret; port=%d",
        b'GET / HTTP/1.1\r\nCookie: modelplane-%d="\\377"',
        b"GET /?token=%%ff HTTP/1.1\r\nCookie: a=%d",
        b"GET /app.css HTTP/1.1\r\nCookie: modelplane-%d=\xed\xa0\x80",
    ],
)
def test_a_cookie_of_any_bytes_is_refused_without_a_trace_in_the_log(caplog, line):
    async def main():
        page = await serve(DashboardSource(fleet_store([])), token=PageToken.printed("secret"))
        url = URL(page.url)
        try:
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(line % url.port + f"\r\nHost: {url.authority}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
        finally:
            await page.close()
        assert answer.startswith(b"HTTP/1.1 401 "), answer[:200]
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]

    asyncio.run(main())


def test_the_picture_in_the_documentation_is_what_a_browser_draws():
    """The golden picture, which a test compares with the page of today; after `make golden` copy it."""
    golden = Path(__file__).with_name("pictures") / "overview-light.png"
    assert (Path(__file__).resolve().parents[2] / "docs" / "dashboard.png").read_bytes() == golden.read_bytes()
