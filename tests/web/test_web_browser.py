"""The dashboard in a real browser: what it shows, how it changes, keys, contrast, narrow screens and pictures."""

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from modelplane.api.objects import GROUP
from modelplane.k8s.admission.decode import escape
from modelplane.reconcile.store import ObjectRef
from modelplane.web.page_token import PageToken
from modelplane.web.server import serve
from modelplane.web.source import DashboardSource
from tests.support.chromium import CHROMIUM, MISSING, browser_page
from tests.support.dashboard_fleet import NOW, FixedClock, cluster, fleet_store, pool, ready, service
from tests.support.hostile_texts import HOSTILE
from tests.support.streaming_gateway import Gateway

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason=MISSING), pytest.mark.slow, pytest.mark.e2e]
PICTURES = Path(__file__).with_name("pictures")
ROUTES = (
    "/overview", "/fleet", "/deployments", "/services", "/caches", "/events", "/playground",
    "/cluster/east", "/cluster/north", "/cluster/west", "/deployment/default/qwen3-8b", "/deployment/team/mistral-24b",
    "/service/default/chat",
    "/deployment/default/absent",
)  # fmt: skip


@asynccontextmanager
async def opened(store=None, **options):
    """A tab with the dashboard of a store. For the page it is always the same time."""
    store = fleet_store() if store is None else store
    page = await serve(
        DashboardSource(store, "http://127.0.0.1:8080"), token=PageToken.printed("t"), clock=FixedClock()
    )
    try:
        async with browser_page(**options) as tab:
            await tab.call("Page.addScriptToEvaluateOnNewDocument", source=f"Date.now = () => {NOW * 1000:.0f};")
            await tab.open(page.url)
            await tab.until("document.getElementById('live')?.dataset.state === 'live'")
            yield tab
    finally:
        await page.close()


async def go(tab, route):
    await tab.eval(f"location.hash = {json.dumps('#' + route)}")
    await tab.until("document.getElementById('main').getAttribute('aria-busy') === 'false'")
    await tab.until(f"location.hash === {json.dumps('#' + route)} && !!document.querySelector('main h1')")


TEXTS = "document.getElementById('main').innerText"
CONTRAST = """(() => {
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (color) => {
    if (!known.has(color)) { pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); known.set(color, [...pen.getImageData(0, 0, 1, 1).data]); }
    return known.get(color);
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => { for (let e = element; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
  const low = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.checkVisibility() || element.closest(".sr, .skip, dialog, :disabled")) continue;
    const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    seen += 1;
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${element.className} ${walk.currentNode.data}`);
  }
  return { low, seen };
})()"""  # noqa: E501  JavaScript
WITHOUT_NAMES = """[
  ...[...document.querySelectorAll("table")].filter((e) => !e.caption || !e.querySelector("th[scope=col]") || [...e.tBodies[0].rows].some((row) => row.cells[0].scope !== "row")),
  ...[...document.querySelectorAll("input, select, textarea")].filter((e) => !e.labels?.length && !e.ariaLabel),
  ...[...document.querySelectorAll("button, a")].filter((e) => !e.innerText.trim() && e.checkVisibility()),
  ...[...document.querySelectorAll("progress, [role=img]")].filter((e) => !e.getAttribute("aria-label")),
].map((e) => e.outerHTML.slice(0, 120))"""  # noqa: E501  JavaScript


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_readable_has_names_and_fits_a_phone(scheme):
    async def main():
        found = {}
        async with opened(scheme=scheme) as tab:
            for route in ROUTES:
                await tab.size(1280, 900)
                await go(tab, route)
                found[route, "contrast"] = await tab.eval(CONTRAST)
                found[route, "names"] = await tab.eval(WITHOUT_NAMES)
                await tab.size(390, 844, mobile=True)
                found[route, "width"] = await tab.eval("document.documentElement.scrollWidth")
            return found, tab.problems

    found, problems = asyncio.run(main())
    assert problems == []
    assert {key: value["low"] for key, value in found.items() if key[1] == "contrast" and value["low"]} == {}
    assert min(value["seen"] for key, value in found.items() if key[1] == "contrast") > 10
    assert {key: value for key, value in found.items() if key[1] == "names" and value} == {}
    assert {key: value for key, value in found.items() if key[1] == "width" and value > 390} == {}


SHOWN = [
    ("/overview", ["2 of 3 ready", "848.00 USD", "12 used", "15 lost", "replaced in 3 min", "next step in 70 s",
                   "InsufficientCapacity", "30 s ago", "wave 2: wave 1 has 1 cluster left: east", "1 of 3"]),
    ("/fleet", ["cordoned", "maintenance=rack-7:NoSchedule", "3 used, 2 by others, 11 free of 16",
                "169.60 USD per hour", "agent not connected", "1 replica on faulty devices", "software Waiting"]),
    ("/cluster/east", ["east-h200-0", "default/qwen3-8b-a", "not Modelplane's", "Kubernetes v1.34.1",
                       "east-h200-0/gpu-3: XID 79", "CollectorRunning"]),
    ("/cluster/north", ["release b3c1, wave 2", "wave 1 has 1 cluster left: east", "modelplane explain cluster north"]),
    ("/cluster/west", ["AgentDisconnected", "the last heartbeat was at 10:37:58"]),
    ("/deployments", ["2 of 3", "31.80 USD", "180 ms", "Progressing", "0 of 8 nodes have 16 free GPUs"]),
    ("/deployment/default/qwen3-8b", ["on east-h200-0", "Why here, why not there", "it is cordoned",
                                      "2 candidates are not in the status", "for 2 min", "in 3 min"]),
    ("/deployment/team/mistral-24b", ["step 1 of 2, 10 % of requests", "new engine", "vllm/vllm-openai:v0.26.0"]),
    ("/service/default/chat", ["60 %", "NotReady: its replica is not ready", "100 % of requests", "180 ms",
                               "is unreachable"]),
    ("/caches", ["10.0 GiB of 16.0 GiB, 62 %", "200.0 MiB/s", "31 s"]),
    ("/events", ["no answer for 30 s", "2 min ago, 4 times"]),
    ("/deployment/default/absent", ["ModelDeployment default/absent does not exist"]),
]  # fmt: skip


def test_what_the_views_show():
    async def main():
        async with opened() as tab:
            missing = {}
            for route, texts in SHOWN:
                await go(tab, route)
                if route.startswith("/service/"):
                    await tab.until(f"{TEXTS}.includes('unreachable')")
                text = await tab.eval(TEXTS)
                missing[route] = [each for each in texts if each not in text]
            return missing

    assert asyncio.run(main()) == {route: [] for route, _ in SHOWN}


def changed(store, kind, name, namespace="", **status):
    item = store.get(ObjectRef(GROUP, kind, namespace, name))
    store.replace_status({**item, "status": {**item["status"], **status}})


def test_changes_are_pushed_and_what_the_user_does_stays():
    async def main():
        store = fleet_store()
        async with opened(store) as tab:
            await go(tab, "/fleet")
            await tab.eval("window.kept = document.querySelector('[data-key=west] h2')")
            await tab.key("/", text="/")
            await tab.type("us-")
            await tab.until("document.querySelectorAll('.cluster').length === 2")
            changed(store, "InferenceCluster", "west", conditions=[ready()])
            await tab.until("document.querySelectorAll('.cluster .state.Ready').length === 2")
            return await tab.eval(
                "[document.activeElement.id, document.activeElement.value, location.hash, performance.navigation?.type,"
                " performance.getEntriesByType('navigation').length]"
            )

    assert asyncio.run(main()) == ["filter", "us-", "#/fleet?q=us-", 0, 1]


def test_the_connection_is_lost_and_found_again():
    async def main():
        store = fleet_store([cluster("east", pool())])
        first = await serve(DashboardSource(store), token=PageToken.printed("t"), clock=FixedClock())
        port = first.runner.addresses[0][1]
        async with browser_page() as tab:
            await tab.open(first.url)
            await tab.until("document.getElementById('live')?.innerText === 'live'")
            await first.close()
            await tab.until("document.getElementById('live').innerText === 'not connected'")
            kept = await tab.eval(TEXTS)
            store.create(cluster("west", pool()))
            second = await serve(DashboardSource(store), token=PageToken.printed("t"), clock=FixedClock(), port=port)
            try:
                await tab.until("document.getElementById('live').innerText === 'live'")
                await tab.until(f"{TEXTS}.includes('2 of 2 ready')")
            finally:
                await second.close()
            return kept

    assert "1 of 1 ready" in asyncio.run(main())


def test_keys_move_between_views_and_pages():
    async def main():
        seen = []
        async with opened(fleet_store([cluster(f"c{number:03}", pool()) for number in range(60)])) as tab:
            for key in ("2", "]", "]", "[", "3"):
                before = await tab.eval(TEXTS)
                await tab.key(key, text=key)
                await tab.until(f"{TEXTS} !== {json.dumps(before)} && main.getAttribute('aria-busy') === 'false'")
                seen.append(await tab.eval("[location.hash, document.querySelector('.cluster h2')?.innerText ?? null]"))
            await tab.key("?", text="?")
            seen.append(await tab.eval("document.getElementById('help').open"))
            await tab.eval("document.getElementById('shortcuts').click(), document.getElementById('help').close()")
            await tab.key("1", text="1")
            seen.append(await tab.eval("location.hash"))
        return seen

    assert asyncio.run(main()) == [
        ["#/fleet", "c000"],
        ["#/fleet?offset=12", "c012"],
        ["#/fleet?offset=24", "c024"],
        ["#/fleet?offset=12", "c012"],
        ["#/deployments", None],
        True,
        "#/deployments",
    ]


TAGS = {
    "a", "body", "button", "dd", "dialog", "div", "dl", "dt", "footer", "form", "h1", "h2", "h3", "head", "header",
    "html", "i", "img", "input", "kbd", "label", "li", "link", "main", "meta", "nav", "noscript", "p", "script",
    "section", "span", "title", "ul",
}  # fmt: skip


def test_hostile_texts_are_shown_as_text():
    texts = [each for each in HOSTILE if each.isprintable() or not any("\ud800" <= c <= "\udfff" for c in each)]

    async def main():
        unready = [cluster("safe", pool())]
        for number, text in enumerate(texts):
            condition = {"type": "Ready", "status": "False", "reason": "Odd", "message": f"<<{text}>>"}
            unready.append(cluster(f"c{number:03}", pool(), condition=condition, labels={"text": text}))
        async with opened(fleet_store(unready)) as tab:
            shown, tags = "", set()
            for offset in range(0, len(texts) + 1, 12):
                await go(tab, f"/fleet?offset={offset or ''}")
                await tab.until(f"{TEXTS}.includes('{offset + 1}\u2013')")
                shown += await tab.eval("document.getElementById('main').textContent")
                tags |= set(await tab.eval("[...document.querySelectorAll('*')].map((e) => e.localName)"))
            return shown, tags, tab.problems

    shown, tags, problems = asyncio.run(main())
    assert [each for each in texts if f"Odd: <<{escape(each)}>>" not in shown] == []
    assert tags <= TAGS
    assert problems == []


def test_an_empty_fleet_says_the_next_command():
    async def main():
        async with opened(fleet_store([])) as tab:
            return await tab.eval(TEXTS)

    text = asyncio.run(main())
    assert "No cluster is in the fleet" in text
    assert "modelplane apply -f examples/quickstart" in text


def test_the_playground_shows_an_answer_as_it_comes():
    async def main():
        async with Gateway() as gateway:
            store = fleet_store([cluster("east", pool()), service("chat", "a", [], address=gateway.url)])
            async with opened(store) as tab:
                await go(tab, "/playground?name=chat&namespace=default")
                await tab.eval("document.getElementById('play-text').focus()")
                await tab.type("Say <b>hello</b>.")
                await tab.eval("document.getElementById('play-send').click()")
                talk = "document.getElementById('talk').innerText"
                await tab.until(f"{talk}.includes('Hel')")
                running = await tab.eval("document.getElementById('play-send').disabled")
                gateway.go_on.set()
                await tab.until("!document.getElementById('play-send').disabled")
                note = await tab.eval("document.getElementById('play-note').innerText")
                return running, await tab.eval(talk), note, gateway.seen[-1][3]["messages"], tab.problems

    running, talk, note, messages, problems = asyncio.run(main())
    assert (running, talk.split("\n")) == (True, ["user", "Say <b>hello</b>.", "assistant", "Hel"])
    assert messages == [{"role": "user", "content": "Say <b>hello</b>."}]
    assert note.startswith("m: first token after ")
    assert problems == []


# Pictures. Fonts differ between machines: what was drawn with others is not compared.

FONTS = """(() => { const pen = document.createElement("canvas").getContext("2d"); pen.font = "100px " + getComputedStyle(document.body).fontFamily;
  return pen.measureText("Modelplane 0123456789 default/qwen3-8b").width.toFixed(1); })()"""  # noqa: E501  JavaScript
DIFFERENT = """(async () => {
  const read = async (data) => { const image = new Image(); image.src = "data:image/png;base64," + data; await image.decode();
    const pen = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
    pen.drawImage(image, 0, 0); return pen.getImageData(0, 0, image.width, image.height); };
  const [a, b] = [await read(%s), await read(%s)];
  if (a.width !== b.width || a.height !== b.height) return 1;
  let other = 0;
  for (let at = 0; at < a.data.length; at += 4) if (Math.max(...[0, 1, 2].map((c) => Math.abs(a.data[at + c] - b.data[at + c]))) > 40) other += 1;
  return other / (a.width * a.height);
})()"""  # noqa: E501  JavaScript
TOLERATED = 0.01
SCENES = [
    ("overview-light", "/overview", 1200, 1000, "light"),
    ("fleet-dark", "/fleet", 1200, 620, "dark"),
    ("deployment-phone", "/deployment/default/qwen3-8b", 390, 844, "light"),
]


@pytest.mark.parametrize(("name", "route", "width", "height", "scheme"), SCENES, ids=[case[0] for case in SCENES])
def test_a_picture(golden, name, route, width, height, scheme):
    file, fonts = PICTURES / f"{name}.png", PICTURES / "fonts.txt"

    async def main():
        async with opened(width=width, height=height, scheme=scheme) as tab:
            await go(tab, route)
            await asyncio.sleep(0.3)
            measured, picture = await tab.eval(FONTS), await tab.picture()
            if golden._update:
                PICTURES.mkdir(exist_ok=True)
                file.write_bytes(picture)
                fonts.write_text(f"{measured}\n")
            await tab.open("about:blank")
            both = [json.dumps(base64.b64encode(each).decode()) for each in (picture, file.read_bytes())]
            return measured, await tab.eval(DIFFERENT % tuple(both)), len(picture)

    measured, different, size = asyncio.run(main())
    assert size < 150_000
    if measured != fonts.read_text().strip():
        pytest.skip("this machine has other fonts than the pictures")
    assert different <= TOLERATED
