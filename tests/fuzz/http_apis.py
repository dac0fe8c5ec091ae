"""Both HTTP APIs under schemathesis, which makes requests from their OpenAPI documents: no answer is a server error.

The embedded API has documents of its own. The side door of the picker is described by the routes that it serves.
"""

import asyncio
import json
import re
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from modelplane.apiserver import openapi
from modelplane.epp.replay.snapshot import encode
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.epp.server.observe import AdminServer, PickerCollector, PickerMetrics, PoolStats
from tests.apiserver.conftest import TOKEN, serving

METHODS = frozenset(("get", "post", "put", "patch", "delete"))
STREAMS = frozenset(("watch", "sendInitialEvents"))
"""A watch is a stream without an end."""
MOST_EXAMPLES = "1000"
OPTIONS = (
    "--checks=not_a_server_error",
    "--phases=coverage,fuzzing",
    f"--max-examples={MOST_EXAMPLES}",
    "--request-timeout=10",
    "--continue-on-failure",
    "--suppress-health-check=all",
    "--warnings=off",
    "--no-color",
    "--header",
    f"Authorization: Bearer {TOKEN}",
)
CASES = re.compile(r"(\d+) generated")
TESTED = re.compile(r"Tested: (\d+)")


def run_http(minutes):
    return asyncio.run(_run(minutes * 60.0))


async def _run(seconds):
    async with serving() as client, side_door() as (port, described):
        # The side door has few operations, each without a body.
        runs = (
            (str(client.session._base_url), embedded_document(), seconds * 0.9),
            (f"http://127.0.0.1:{port}", described, seconds * 0.1),
        )
        found = [await _schemathesis(*each) for each in runs]
    tested, requests, bad = (sum(column) for column in zip(*found, strict=True))
    print(f"{sum(each[0] > 0 for each in found)} APIs, {tested} operations, {requests} requests, {bad} failed")
    return int(bad > 0)


def embedded_document():
    """All documents of the embedded API as one, without what makes an answer a stream."""
    documents = [json.loads(openapi.document(group)) for group in json.loads(openapi.paths())["paths"]]
    paths = {path: methods for each in documents for path, methods in each.get("paths", {}).items()}
    schemas = {name: one for each in documents for name, one in each.get("components", {}).get("schemas", {}).items()}
    for methods in paths.values():
        for method in METHODS & methods.keys():
            known = methods[method].get("parameters", ())
            methods[method]["parameters"] = [each for each in known if each["name"] not in STREAMS]
    return {**documents[0], "paths": paths, "components": {"schemas": schemas}}


def described_routes(application):
    """An OpenAPI document of what an application serves."""
    paths = {}
    for route in application.router.routes():
        path = route.resource.canonical
        names = re.findall(r"{(\w+)}", path)
        parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        if route.method.lower() in METHODS:
            body = {"parameters": parameters, "responses": {"200": {"description": "OK"}}}
            paths.setdefault(path, {})[route.method.lower()] = body
    return {"openapi": "3.0.3", "info": {"title": "side door", "version": "1"}, "paths": paths}


@asynccontextmanager
async def side_door():
    endpoint = Endpoint("team/p", "10.0.0.1:8000")
    page = PickerCollector(PickerMetrics(), lambda: PoolStats("pool", (endpoint,)))
    server = AdminServer(page, ("127.0.0.1", 0), state=lambda: encode((endpoint,), 1.0))
    await server.start()
    try:
        yield server.port, described_routes(server._runner.app)
    finally:
        await server.stop()


async def _schemathesis(base, document, seconds):
    """Operations that were tried, requests, and 1 where an answer was a server error or nothing was tried."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "openapi.json"
        path.write_text(json.dumps(document))
        program = Path(sys.executable).with_name("schemathesis")
        words = ("run", str(path), f"--url={base}", f"--max-time={max(int(seconds), 1)}", *OPTIONS)
        process = await asyncio.create_subprocess_exec(
            program, *words, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
    text = output.decode(errors="replace")
    tested, cases = (int(found[1]) if (found := each.search(text)) else 0 for each in (TESTED, CASES))
    failed = process.returncode != 0 or not cases
    print(text if failed else f"{base}: {tested} operations, {cases} requests", flush=True)
    return tested, cases, int(failed)
