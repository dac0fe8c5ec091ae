"""The loader beside the clients that people use, from the same server onto the same disk.

One stream beside curl and eight beside aria2c; what checksums cost; how much memory a 100 GB file takes; what a kill
wastes; and whether a relay moves a file once. A transfer ends when its bytes are on the disk, for all clients.

    python bench/hydrate.py [--gib 2] [--sparse-gb 100] [--rounds 3] [--rate-mb 0]
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

ROOT = Path(__file__).resolve().parent.parent
_ALLOW = ("--outbound-allow", "127.0.0.1/32")
_MIB = 1 << 20
_ROW = dict[str, object]
_KILLS = 5
_ARIA2C = shutil.which("aria2c")
_CURL = shutil.which("curl") or "curl"


@dataclass(frozen=True, slots=True)
class Bench:
    """What a run needs."""

    folder: Path
    gib: float = 1.0
    rounds: int = 3
    sparse_gb: int = 2
    rate_mb: int = 0
    """Megabytes a second that the server gives to all connections together; 0 for as many as it can."""


def rows() -> list[_ROW]:
    """The figures of `bench/run.py`: small, so that they take a minute."""
    with tempfile.TemporaryDirectory(prefix="bench-hydrate-") as folder:
        return list(measure(Bench(Path(folder), gib=0.25, rounds=3, sparse_gb=2)))


def measure(bench: Bench) -> Iterator[_ROW]:
    """Each figure as soon as it is known."""
    source = bench.folder / "served"
    source.mkdir()
    _write_random(source / "model.bin", int(bench.gib * 1024) * _MIB)
    with serving(source, bench.rate_mb) as server:
        yield from speeds(bench, server)
    yield waste(bench)
    with (source / "sparse.bin").open("wb") as file:
        file.truncate(bench.sparse_gb * 10**9)
    with serving(source, 0) as server:
        yield memory(bench, server)
    yield relay(bench)


def speeds(bench: Bench, server: "Server") -> list[_ROW]:
    """Clients take turns, so that what else the machine does meets all of them."""
    url = f"{server.url}/model.bin"
    clients: dict[str, Callable[[Path], None]] = {
        "curl": lambda out: _run([_CURL, "-sf", "-o", str(out / "model.bin"), url]),
        "one": lambda out: _hydrate(out, url, connections=1),
        "eight": lambda out: _hydrate(out, url, connections=8),
        "unverified": lambda out: _run([sys.executable, __file__, "--unverified", url, str(out)]),
    }
    if _ARIA2C is not None:
        aria2c = _ARIA2C
        options = [
            "-x8",
            "-s8",
            "-k1M",
            "--file-allocation=none",
            "--allow-overwrite",
            "-q",
            "--console-log-level=error",
        ]
        clients["aria2c"] = lambda out: _run([aria2c, *options, "-d", str(out), "-o", "model.bin", url])
    times: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(bench.rounds):
        for name, client in clients.items():
            times[name].append(_timed(bench.folder, client))
    size = int(bench.gib * 1024) * _MIB
    rate = {name: size / statistics.median(taken) / 1e6 for name, taken in times.items()}
    every = {name: [round(size / each / 1e6) for each in taken] for name, taken in times.items()}
    many = "aria2c" if "aria2c" in rate else "curl"
    return [
        _row("one stream beside curl", 100 * rate["one"] / rate["curl"], "%", 90, _shown(every, "one", "curl")),
        _row(f"eight streams beside {many}", 100 * rate["eight"] / rate[many], "%", 90, _shown(every, "eight", many)),
        _row(
            "cost of checksums",
            100 * (1 - rate["eight"] / rate["unverified"]),
            "%",
            10,
            _shown(every, "eight", "unverified"),
            better="lower",
        ),
    ]


def waste(bench: Bench) -> _ROW:
    """Kills the loader five times while it fetches at a rate that a network has, and counts what was sent too much."""
    size = int(bench.gib * 1024) * _MIB
    out = bench.folder / "killed"
    with serving(bench.folder / "served", max(20, size // 10**7)) as slow:
        url = f"{slow.url}/model.bin"
        for _ in range(_KILLS):
            process = subprocess.Popen(_command(out, url, 8), stdout=subprocess.PIPE, env=_environment())  # noqa: S603  our own programs, and curl
            _await_bytes(process)
            time.sleep(0.5)
            process.kill()
            process.communicate()
        _hydrate(out, url, connections=8)
        sent = slow.sent()
    shutil.rmtree(out)
    wasted = (sent - size) / _KILLS / _MIB
    return _row(
        "sent again after a kill", wasted, "MiB", 8, f"{_KILLS} kills, {sent} bytes sent for {size}", better="lower"
    )


def memory(bench: Bench, server: "Server") -> _ROW:
    out = bench.folder / "sparse"
    started = time.monotonic()
    process = subprocess.Popen(  # noqa: S603  our own programs, and curl
        _command(out, f"{server.url}/sparse.bin", 8), stdout=subprocess.DEVNULL, env=_environment()
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the loader ended with {process.returncode}")
    shutil.rmtree(out)
    taken = time.monotonic() - started
    shown = f"{bench.sparse_gb} GB, sparse, in {taken:.0f} s"
    return _row("memory", used.ru_maxrss / 1024, "MiB", 200, shown, better="lower")


def relay(bench: Bench) -> _ROW:
    """The first cluster fetches from the source, two others from the first: what the source sent, in files."""
    size = (bench.folder / "served" / "model.bin").stat().st_size
    with serving(bench.folder / "served", 0) as source:
        _hydrate(bench.folder / "a", f"{source.url}/model.bin", connections=8)
        with peer(bench.folder / "a") as url:
            for name in ("b", "c"):
                _run(
                    [
                        *_program(),
                        "--source",
                        json.dumps({"peer": {"url": url}}),
                        "--into",
                        str(bench.folder / name),
                        *_ALLOW,
                    ]
                )
        sent = source.sent()
    same = all((bench.folder / name / "model.bin").stat().st_size == size for name in ("a", "b", "c"))
    for name in ("a", "b", "c"):
        shutil.rmtree(bench.folder / name)
    return _row(
        "files from the source for three clusters",
        sent / size if same else 3,
        "files",
        1.001,
        f"{sent} bytes",
        better="lower",
    )


class Server:
    """A server in a process of its own, as the clients are."""

    def __init__(self, folder: Path, rate_mb: int) -> None:
        command = [sys.executable, __file__, "--serve", str(folder), "--rate-mb", str(rate_mb)]
        self._process = subprocess.Popen(  # noqa: S603  our own programs, and curl
            command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=_environment()
        )
        assert self._process.stdout is not None  # noqa: S101  it was asked for
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def sent(self) -> int:
        return int(subprocess.run([_CURL, "-sf", f"{self.url}/sent"], check=True, capture_output=True).stdout)  # noqa: S603  our own programs, and curl

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate()


@contextmanager
def serving(folder: Path, rate_mb: int) -> Iterator[Server]:
    server = Server(folder, rate_mb)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def peer(volume: Path) -> Iterator[str]:
    command = [*_program(), "serve", "--volume", str(volume), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment())  # noqa: S603  our own programs, and curl
    try:
        assert process.stdout is not None  # noqa: S101  it was asked for
        yield f"http://127.0.0.1:{int(process.stdout.readline().rpartition(':')[2])}"
    finally:
        process.terminate()
        process.communicate()


class FileService:
    """Files with ranges: by sendfile, or in blocks at a rate that all connections share."""

    def __init__(self, folder: Path, rate_mb: int) -> None:
        self._folder = folder
        self._rate = rate_mb * 1e6
        self._sent = 0
        self._due = 0.0

    async def run(self) -> None:
        application = web.Application()
        application.router.add_get("/sent", self._count)
        application.router.add_get("/{name}", self._file)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    async def _count(self, _request: web.Request) -> web.Response:
        return web.Response(text=str(self._sent))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = self._folder / request.match_info["name"]
        size = path.stat().st_size
        asked = request.http_range
        start, stop = asked.start or 0, min(size, asked.stop or size)
        if not self._rate:
            self._sent += stop - start if stop - start > 1 else 0
            return web.FileResponse(path, chunk_size=_MIB)
        headers = {"Content-Length": str(stop - start), "ETag": '"bench"'}
        partial = "Range" in request.headers
        if partial:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        response = web.StreamResponse(status=206 if partial else 200, headers=headers)
        await response.prepare(request)
        with suppress(ConnectionError):  # a client was killed
            await self._blocks(response, path, start, stop)
        return response

    async def _blocks(self, response: web.StreamResponse, path: Path, start: int, stop: int) -> None:
        with path.open("rb") as file:
            file.seek(start)
            while start < stop:
                block = file.read(min(64 << 10, stop - start))
                await self._wait(len(block))
                await response.write(block)
                start += len(block)
                self._sent += len(block) if len(block) > 1 else 0

    async def _wait(self, count: int) -> None:
        now = time.monotonic()
        self._due = max(self._due, now) + count / self._rate
        await asyncio.sleep(self._due - now)


def _timed(folder: Path, client: Callable[[Path], None]) -> float:
    out = folder / "out"
    out.mkdir()
    os.sync()
    started = time.monotonic()
    client(out)
    _sync(out)
    taken = time.monotonic() - started
    shutil.rmtree(out)
    return taken


def _sync(out: Path) -> None:
    """The loader has done this itself; for the others it is what their bytes still have to do."""
    descriptor = os.open((out / "model.bin").resolve(), os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _hydrate(out: Path, url: str, *, connections: int) -> None:
    _run(_command(out, url, connections))


def _command(out: Path, url: str, connections: int) -> list[str]:
    options = ["--connections", str(connections), "--progress-interval", "0.5", *_ALLOW]
    return [*_program(), "--source", _source(url), "--into", str(out), *options]


def _source(url: str) -> str:
    return json.dumps({"http": {"url": url}})


def _program() -> list[str]:
    return [sys.executable, "-m", "modelplane", "hydrate"]


def _unverified(url: str, out: Path) -> None:
    """The loader without checksums, which its command line does not offer."""
    from modelplane.api.outbound import OutboundRule
    from modelplane.hydrate import CacheVolume, Hydration, HydrationOptions, OriginOptions, origin_of, read_source
    from modelplane.hydrate.progress import HydrationProgress
    from modelplane.hydrate.settings import FetchSettings, Stop

    origin = origin_of(read_source(_source(url)), OriginOptions(rule=OutboundRule.read(["127.0.0.1/32"])))
    options = HydrationOptions(fetch=FetchSettings(verify=False))
    Hydration(origin, CacheVolume(out), options, HydrationProgress(lambda _: None), Stop()).run()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())  # noqa: S603  our own programs, and curl


def _await_bytes(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None  # noqa: S101  it was asked for
    for line in process.stdout:
        if json.loads(line).get("fetched"):
            return


def _write_random(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // _MIB):
            file.write(os.urandom(_MIB))


def _shown(rates: dict[str, list[int]], ours: str, theirs: str) -> str:
    return f"{ours} {rates[ours]} MB/s, {theirs} {rates[theirs]} MB/s"


def _row(name: str, value: float, unit: str, limit: float, baseline: str, *, better: str = "higher") -> _ROW:
    ok = value >= limit if better == "higher" else value <= limit
    shown = {"id": name, "value": round(value, 2), "unit": unit, "limit": limit, "ok": ok, "baseline": baseline}
    return {**shown, "better": better}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--sparse-gb", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate-mb", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--unverified", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.unverified:
        _unverified(options.unverified[0], Path(options.unverified[1]))
    elif options.serve:
        asyncio.run(FileService(options.serve, options.rate_mb).run())
    else:
        with tempfile.TemporaryDirectory(prefix="bench-hydrate-", dir=options.folder) as folder:
            bench = Bench(Path(folder), options.gib, options.rounds, options.sparse_gb, options.rate_mb)
            for row in measure(bench):
                print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
