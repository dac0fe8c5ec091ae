"""The same scripted client session on the embedded API and on a real API server: the same outcomes, or a listed reason.

The real server has our plain CustomResourceDefinitions and nothing that acts on them; the embedded API runs without its
composers, so that both only store, validate and answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from lab.client import Api, Manifest, name_of, text, until
from lab.oracles.finding import Difference, Finding
from lab.sessions.steps import NAMESPACE
from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.lifecycle import Lifecycle, ensure_namespaces
from modelplane.apiserver.store.database import Database
from modelplane.plane.certificates import server_context
from modelplane.plane.kubeconfig import write_kubeconfig
from modelplane.reconcile.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from pathlib import Path

SESSIONS = ("kubectl", "kubernetes", "lightkube", "kr8s")
_TOKEN = "session"  # noqa: S105 - of an API that lives for one comparison, on loopback
_WITHIN_S = 900.0
_KNOWN = (
    (
        "kubernetes",
        "create a wrong one",
        "the real server lists one wrong value under two spellings of its field; the embedded one says each thing once",
    ),
)
"""(session, step, why): differences that were looked into and stay."""


async def compare(
    api: Api,
    kubeconfig: Path,
    definitions: Sequence[Manifest],
    *,
    kubectl: Path,
    folder: Path,
    say: Callable[[str], None],
) -> Finding:
    """`definitions` are ours, put on the real server and removed afterwards."""
    await _define(api, definitions)
    compared = 0
    differences: list[Difference] = []
    try:
        for name in SESSIONS:
            async with _embedded(folder / name) as ours:
                here = await _session(name, ours, kubectl)
            there = await _session(name, kubeconfig, kubectl)
            await _clear(api)
            compared += len(there)
            differences += _differences(name, here, there)
            say(f"clients: {name}, {len(there)} steps, {len(differences)} differences so far")
    finally:
        for each in definitions:
            await api.delete(each)
    return Finding("client sessions on the embedded and the real API", compared, tuple(differences))


async def _define(api: Api, definitions: Iterable[Manifest]) -> None:
    for each in definitions:
        await api.apply(each)
    for each in definitions:
        version, kind = f"{text(each, 'spec', 'group')}/v1alpha1", text(each, "spec", "names", "kind")
        await until(f"{name_of(each)} served", lambda at=(version, kind): _answers(api, *at))  # type: ignore[misc]  # bound early on purpose


async def _answers(api: Api, version: str, kind: str) -> bool:
    found = await api.kind(version, kind)
    await api.call("GET", found.path(None))
    return True


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[Path]:
    """The embedded API alone, over TLS; the kubeconfig for it."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    clock = SystemClock()
    with Database(None, clock=clock) as database:
        store = database.store("plane")
        ensure_namespaces(store)
        lifecycle = asyncio.create_task(Lifecycle(store, clock).loop.run())
        server = ApiServer(store, token=_TOKEN, clock=clock)
        await server.runner.setup()
        context, certificate = server_context(folder, now=clock.now())
        await web.TCPSite(server.runner, "127.0.0.1", 0, ssl_context=context).start()
        url = f"https://127.0.0.1:{server.runner.addresses[0][1]}"
        write_kubeconfig(folder / "kubeconfig", server=url, token=_TOKEN, certificate=certificate)
        try:
            yield folder / "kubeconfig"
        finally:
            await server.close()
            lifecycle.cancel()
            await asyncio.gather(lifecycle, return_exceptions=True)


async def _session(name: str, kubeconfig: Path, kubectl: Path) -> list[tuple[str, object]]:
    command = [sys.executable, "-W", "ignore", "-m", f"lab.sessions.{name}_session", str(kubeconfig)]
    if name == "kubectl":
        command.append(str(kubectl))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(_WITHIN_S):
        out, err = await process.communicate()
    told = [json.loads(line) for line in out.splitlines()]
    steps = [(str(each["step"]), each["outcome"]) for each in told]
    if process.returncode:
        steps.append(("the session itself", {"exit": process.returncode, "err": err.decode()[-400:]}))
    return steps


def _differences(name: str, here: list[tuple[str, object]], there: list[tuple[str, object]]) -> Iterable[Difference]:
    for ours, theirs in zip(here, there, strict=False):
        if ours != theirs:
            why = next((why for session, step, why in _KNOWN if (session, step) == (name, theirs[0])), "")
            text = f"embedded {json.dumps(ours[1])[:600]}; real {json.dumps(theirs[1])[:600]}"
            yield Difference(f"{name}: {theirs[0]}", text, why)
    if len(here) != len(there):
        yield Difference(name, f"{len(here)} steps were told by the embedded API, {len(there)} by the real one")


async def _clear(api: Api) -> None:
    namespace: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}

    async def gone() -> bool:
        return await api.get("v1", "Namespace", NAMESPACE) is None

    await api.delete(namespace)
    await until("the session's namespace gone", gone)
