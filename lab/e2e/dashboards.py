"""The dashboard beside the function server: its installed Deployment, played with its own rights and its Secret.

The control cluster runs no pods. The program runs with the arguments of the Deployment and the token of its
ServiceAccount; the Secret, made as documented, is a file as a kubelet would mount it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from lab.certificates import write_private
from lab.client import Access, Api, ApiError, Manifest, WaitedTooLongError, items, text, value
from lab.cluster import LOOPBACK, answers
from lab.e2e.desk import type_line
from lab.e2e.steps import DEPLOYMENT, expect, models
from lab.e2e.world import OURS, read_access
from lab.scenario import FailedError
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.crossplane.dashboard_objects import DASHBOARD, TOKEN_KEY, TOKEN_SECRET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lab.e2e.world import World

PAGE = Path("docs/dashboard.md")
_PAGE_PORT, _PROBE_PORT = 21090, 21091  # a pod has an address of its own; here others have the pod's ports
_ORIGIN = f"http://localhost:{_PAGE_PORT}"
_PUSHED = "seen-by-the-dashboard"
_PUSHED_WITHIN_S = 60.0
_UNAUTHORIZED, _FORBIDDEN, _NOT_ALLOWED = 401, 403, 405


async def dashboard(world: World) -> str:
    """The page opens by its Secret alone, pushes what changes, and its account may write nothing."""
    access = await _access(world)
    with tempfile.TemporaryDirectory() as folder:
        async with _pod(world, Path(folder), access) as log:
            expect(await _status("/") == _UNAUTHORIZED, "the page opens before there is a Secret")
            await asyncio.to_thread(type_line, world, secret_command())
            token = await _mount(world, Path(folder))
            told = await _reads(world, token)
            expect(token not in log.read_text(), "the token is in the log")
    return f"{told}; refused to its account: {await _refused(world, access)}"


def secret_command() -> str:
    """As the page says."""
    found = re.search(rf"^kubectl .* create secret generic {TOKEN_SECRET} .*$", PAGE.read_text(), re.MULTILINE)
    return found[0] if found else ""


async def _access(world: World) -> Access:
    """By a token such as a kubelet would mount."""
    wanted: Manifest = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{DASHBOARD}/token"
    answer = await world.control.call("POST", path, body=wanted)
    admin = read_access(world.kubeconfigs["control"])
    return Access(admin.server, admin.authority, token=text(answer, "status", "token"))


@contextlib.asynccontextmanager
async def _pod(world: World, folder: Path, access: Access) -> AsyncIterator[Path]:
    """The program of the Deployment, ready; its log."""
    deployment = await world.control.get("apps/v1", "Deployment", DASHBOARD, namespace=SYSTEM_NAMESPACE)
    (container,) = items(deployment, "spec", "template", "spec", "containers")
    given = value(container, "args")
    words = [str(each) for each in given] if isinstance(given, list) else []
    write_private(folder / "kubeconfig", access.kubeconfig().encode())
    played = (f"--kubeconfig={folder / 'kubeconfig'}", f"--token-file={folder / TOKEN_KEY}", f"--address={LOOPBACK}")
    ports = (f"--port={_PAGE_PORT}", f"--probe-port={_PROBE_PORT}")
    command = (sys.executable, "-m", "modelplane", "dashboard", *words, *played, *ports)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, env=dict(os.environ))
    try:
        await _ready(world, folder / "log")
        yield folder / "log"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _ready(world: World, log: Path) -> None:
    try:
        await world.wait("the dashboard is ready", answers(f"http://{LOOPBACK}:{_PROBE_PORT}/readyz"), within_s=60.0)
    except WaitedTooLongError as error:
        said = log.read_text()[-600:]  # noqa: ASYNC240 - one small file
        raise FailedError(f"{error}; it says {said}") from error


async def _mount(world: World, folder: Path) -> str:
    secret = await world.control.get("v1", "Secret", TOKEN_SECRET, namespace=SYSTEM_NAMESPACE)
    token = base64.b64decode(text(secret, "data", TOKEN_KEY))
    write_private(folder / TOKEN_KEY, token)
    return token.decode()


async def _status(path: str, *, method: str = "GET", token: str = "") -> int:
    cookies = {f"modelplane-{_PAGE_PORT}": token} if token else {}
    async with (
        aiohttp.ClientSession(cookies=cookies) as session,
        session.request(method, f"{_ORIGIN}{path}") as answer,
    ):
        return answer.status


async def _reads(world: World, token: str) -> str:
    """The page, the deployment that serves, and one that is applied while the stream is open."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(f"{_ORIGIN}/", params={"token": token}) as answer:
            expect("<title>Modelplane</title>" in await answer.text(), f"the page is answered with {answer.status}")
        async with session.get(f"{_ORIGIN}/api/stream", params={"view": "deployments"}) as answer:
            rows = _rows(answer)
            first = await anext(rows)
            expect(DEPLOYMENT in first, f"deployments of the page: {first}")
            waited = await _pushed(world, rows)
    refused = await _status("/api/deployments", method="POST", token=token)
    expect(refused == _NOT_ALLOWED, f"a POST to a view is answered with {refused}")
    return f"the page shows {DEPLOYMENT} {first[DEPLOYMENT]}, and a new deployment {waited:.1f} s after it was applied"


async def _rows(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, str]]:
    """The deployments of each view that is pushed, by name, with their states."""
    name = ""
    async for line in answer.content:
        field, _, content = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = content
        elif field == "data" and name == "view":
            yield {text(row, "name"): text(row, "health", "state") for row in items(json.loads(content), "rows")}


async def _pushed(world: World, rows: AsyncIterator[dict[str, str]]) -> float:
    """How long after it was applied the stream has a deployment."""
    (example,) = [item for item in models() if item["kind"] == "ModelDeployment"]
    spec = value(example, "spec")
    wanted = {**example, "metadata": {"name": _PUSHED, "namespace": "default"}}
    wanted["spec"] = {**(spec if isinstance(spec, dict) else {}), "replicas": 0}
    loop = asyncio.get_running_loop()
    began = loop.time()
    await world.control.apply(wanted)
    try:
        async with asyncio.timeout(_PUSHED_WITHIN_S):
            while _PUSHED not in await anext(rows):
                pass
        return loop.time() - began
    finally:
        await world.control.delete(wanted)


async def _refused(world: World, access: Access) -> str:
    """What its account may not do; the server's own words are the proof."""
    metadata = {"name": DEPLOYMENT, "namespace": "default"}
    deployment: Manifest = {"apiVersion": OURS, "kind": "ModelDeployment", "metadata": metadata}
    secrets = (await world.control.kind("v1", "Secret")).path(SYSTEM_NAMESPACE)
    mine = (await world.control.kind(OURS, "ModelDeployment")).path("default", DEPLOYMENT)
    tries: dict[str, tuple[str, str, Manifest | None]] = {
        "scale": ("PATCH", mine, {"spec": {"replicas": 0}}),
        "delete": ("DELETE", mine, None),
        "create": ("POST", mine.rpartition("/")[0], {**deployment, "spec": {}}),
        "status": ("PATCH", f"{mine}/status", {"status": {}}),
        "list Secrets": ("GET", secrets, None),
        "read its own Secret": ("GET", f"{secrets}/{TOKEN_SECRET}", None),
    }
    async with Api(access) as api:
        for what, (method, path, body) in tries.items():
            status = await _answer(api, method, path, body)
            expect(status == _FORBIDDEN, f"{what} is answered with {status}")
        expect(not await _answer(api, "GET", mine.rpartition("/")[0], None), "it may not list ModelDeployments")
    return ", ".join(tries)


async def _answer(api: Api, method: str, path: str, body: Manifest | None) -> int:
    """The status of a refusal; 0: it is allowed."""
    try:
        await api.call(method, path, body=body, content="application/merge-patch+json")
    except ApiError as refusal:
        return refusal.status
    return 0
