"""A client that loads the API of a plane over HTTPS, with as little work of its own as possible.

    python bench/plane_load.py FOLDER KIND VERB CONNECTIONS SECONDS

FOLDER is the plane's; its kubeconfig says where the API is and who may ask. Prints what was answered and in what time.
"""

import asyncio
import base64
import json
import re
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "quickstart" / "3-model.yaml"
PATHS = {
    "configmaps": "/api/v1/namespaces/default/configmaps",
    "modeldeployments": "/apis/modelplane.ai/v1alpha1/namespaces/default/modeldeployments",
}
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_OK, _CREATED, _FAILED = 200, 201, 400


class Connection:
    """One kept-alive connection."""

    def __init__(self, folder: Path) -> None:
        config = yaml.safe_load((folder / "kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._host, self._port = cluster["server"].removeprefix("https://").split(":")
        self._token = user["token"]
        self._trust = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )

    async def open(self) -> None:
        self.reader, self._writer = await asyncio.open_connection(self._host, int(self._port), ssl=self._trust)

    def send(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: {media}\r\nUser-Agent: bench/1\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)

    async def ask(
        self, method: str, path: str, body: object = None, media: str = "application/json"
    ) -> tuple[int, bytes]:
        self.send(method, path, json.dumps(body).encode() if body is not None else b"", media)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        return int(head[9:12]), await self.reader.readexactly(int(length[1]) if length else 0)

    def close(self) -> None:
        self._writer.close()


def configmap(name: str, number: int) -> dict[str, object]:
    metadata = {"name": name, "labels": {"app": "bench"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b" * 200, "n": str(number)}}


def deployment(name: str, number: int) -> dict[str, object]:
    example = next(iter(yaml.safe_load_all(EXAMPLE.read_text())))
    metadata = {"name": name, "namespace": "default", "labels": {"app": "bench"}, "annotations": {"n": str(number)}}
    return {**example, "metadata": metadata, "spec": {**example["spec"], "replicas": 0}}


OBJECTS = {"configmaps": configmap, "modeldeployments": deployment}


async def load(folder: Path, kind: str, verb: str, connections: int, seconds: float) -> dict[str, float]:
    opened = [Connection(folder) for _ in range(connections)]
    for each in opened:
        await each.open()
        await each.ask("POST", PATHS[kind], OBJECTS[kind](f"kept-{opened.index(each)}", 0))
    latencies: list[float] = []
    ends = time.perf_counter() + seconds
    workers = (_worker(number, each, kind, verb, ends, latencies) for number, each in enumerate(opened))
    started = time.perf_counter()
    await asyncio.gather(*workers)
    took = time.perf_counter() - started
    for each in opened:
        each.close()
    latencies.sort()
    return {"count": len(latencies), "seconds": took, "p99_ms": latencies[len(latencies) * 99 // 100] * 1000}


async def _worker(
    number: int, connection: Connection, kind: str, verb: str, ends: float, latencies: list[float]
) -> None:
    do = _VERBS[verb](connection, kind, number)
    count = 0
    while time.perf_counter() < ends:
        started = time.perf_counter()
        status = await do(count)
        if status >= _FAILED:
            raise SystemExit(f"{verb} of {kind} was answered with {status}")
        latencies.append(time.perf_counter() - started)
        count += 1


Do = Callable[[int], Awaitable[int]]


def _create(connection: Connection, kind: str, number: int) -> Do:
    name, body = f"made-{number}", OBJECTS[kind]("", 0)

    async def do(count: int) -> int:
        metadata = body["metadata"]
        made = {**body, "metadata": {**metadata, "name": f"{name}-{count}"}} if isinstance(metadata, dict) else body
        return (await connection.ask("POST", PATHS[kind], made))[0]

    return do


def _patch(connection: Connection, kind: str, number: int) -> Do:
    async def do(count: int) -> int:
        change = {"metadata": {"annotations": {"count": str(count)}}}
        return (await connection.ask("PATCH", f"{PATHS[kind]}/kept-{number}", change, "application/merge-patch+json"))[
            0
        ]

    return do


def _apply(connection: Connection, kind: str, number: int) -> Do:
    path = f"{PATHS[kind]}/kept-{number}?fieldManager=bench&force=true"
    body = OBJECTS[kind](f"kept-{number}", 0)

    async def do(count: int) -> int:
        metadata = body["metadata"]
        stated = {**metadata, "annotations": {"applied": str(count)}} if isinstance(metadata, dict) else {}
        return (await connection.ask("PATCH", path, {**body, "metadata": stated}, "application/apply-patch+yaml"))[0]

    return do


def _get(connection: Connection, kind: str, number: int) -> Do:
    async def do(_count: int) -> int:
        return (await connection.ask("GET", f"{PATHS[kind]}/kept-{number}"))[0]

    return do


def _health(connection: Connection, _kind: str, _number: int) -> Do:
    async def do(_count: int) -> int:
        return (await connection.ask("GET", "/healthz"))[0]

    return do


_VERBS = {"create": _create, "patch": _patch, "apply": _apply, "get": _get, "health": _health}

if __name__ == "__main__":
    _, given, what, how, many, long = sys.argv
    print(json.dumps(asyncio.run(load(Path(given), what, how, int(many), float(long)))))
