"""A real browser: Debian's chromium, driven by its own DevTools protocol over a WebSocket.

Playwright would bring a 45 MB driver and a second JavaScript runtime for the few commands that are needed here.
"""

import asyncio
import base64
import json
import shutil
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "no chromium is installed: `apt-get install chromium`"
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
    "--no-first-run", "--hide-scrollbars", "--force-device-scale-factor=1", "--font-render-hinting=none",
    "--disable-lcd-text", "--disable-background-networking", "--disable-component-update", "--mute-audio",
    "--remote-debugging-port=0",
)  # fmt: skip
_START_S = 60.0
_STEP_S = 30.0


class BrowserPage:
    """One tab. What it logs and what its policy refuses is kept in `problems`."""

    def __init__(self, socket, session):
        self._socket = socket
        self._session = session
        self._number = 0
        self._answers = {}
        self.problems = []
        self._reading = asyncio.create_task(self._read())

    async def call(self, method, **params):
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        message = {"id": self._number, "method": method, "params": params, "sessionId": self._session}
        await self._socket.send_str(json.dumps(message))
        async with asyncio.timeout(_STEP_S):
            return await answer

    async def _read(self):
        async for message in self._socket:
            found = json.loads(message.data)
            if found.get("id") in self._answers:
                answer = self._answers.pop(found["id"])
                if "error" in found:
                    answer.set_exception(AssertionError(found["error"]["message"]))
                else:
                    answer.set_result(found.get("result", {}))
            elif found.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self._keep(found["params"])

    def _keep(self, params):
        """Answers with an error are the page's to show: they are no problem of it."""
        if params.get("entry", {}).get("source") != "network":
            self.problems.append(json.dumps(params))

    async def start(self):
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def size(self, width, height, *, mobile=False):
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )

    async def scheme(self, name):
        """Light or dark, and nothing moves."""
        features = [
            {"name": "prefers-color-scheme", "value": name},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def open(self, url):
        """Waits until the whole page is there: a browser shows its beginning while it still reads the rest."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def eval(self, code):
        """The value of an expression; of a promise, what it becomes."""
        found = await self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"].get("exception", {}).get("description", found))
        return found["result"].get("value")

    async def until(self, code, seconds=_STEP_S):
        """Waits until an expression is true, and returns it."""
        async with asyncio.timeout(seconds):
            while True:
                with suppress(AssertionError):  # the page is being replaced
                    if found := await self.eval(code):
                        return found
                await asyncio.sleep(0.05)

    async def key(self, key, *, text="", modifiers=0):
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "",
                            modifiers=modifiers)  # fmt: skip

    async def type(self, text):
        await self.call("Input.insertText", text=text)

    async def picture(self, *, whole=False):
        """A PNG of what is seen, or of the whole page."""
        found = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    async def close(self):
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


@asynccontextmanager
async def browser_page(width=1280, height=900, scheme="light"):
    """A tab of a browser with an empty profile, which ends with it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with aiohttp.ClientSession() as session, _socket(session, Path(profile)) as socket:
                page = BrowserPage(socket, await _attach(socket))
                try:
                    await page.start()
                    await page.size(width, height)
                    await page.scheme(scheme)
                    yield page
                finally:
                    await page.close()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@asynccontextmanager
async def _socket(session, profile):
    """The browser writes its port and its path into the profile once it listens."""
    file = profile / "DevToolsActivePort"
    async with asyncio.timeout(_START_S):
        while not (file.exists() and len(file.read_text().split()) == 2):  # noqa: ASYNC110  another program writes it
            await asyncio.sleep(0.05)
    port, path = file.read_text().split()
    async with session.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as socket:
        yield socket


async def _attach(socket):
    """The session of a new tab."""
    found = await _answer(socket, 1, "Target.createTarget", url="about:blank")
    attached = await _answer(socket, 2, "Target.attachToTarget", targetId=found["targetId"], flatten=True)
    return attached["sessionId"]


async def _answer(socket, number, method, **params):
    await socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
    while True:
        found = json.loads((await socket.receive()).data)
        if found.get("id") == number:
            return found["result"]
