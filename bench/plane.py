"""The embedded plane as a whole: what its API takes, what a large fleet weighs, what a kill costs, how soon it serves.

Everything is a process of its own, asked over HTTPS as clients do. Rates and recoveries are in seconds of the plane's
own CPU time, because cores are shared: on two free ones, one for the plane and one for its clients, that is what the
clock on the wall says. `wall` beside them is what it said in this run.

    MODELPLANE_BENCH_CLUSTERS   clusters of the large fleet (1000); deployments are as many, replicas ten times
    MODELPLANE_BENCH_KILLS      how often the plane is killed (100)
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from plane_load import PATHS, Connection, configmap

HERE = Path(__file__).resolve().parent
PROGRAM = Path(sys.executable).with_name("modelplane")
EXAMPLES = HERE.parent / "examples" / "quickstart"
CLUSTERS = int(os.environ.get("MODELPLANE_BENCH_CLUSTERS", "1000"))
KILLS = int(os.environ.get("MODELPLANE_BENCH_KILLS", "100"))
CONNECTIONS, SECONDS, CHANGES, WRITES_A_LIFE = 8, 4.0, 20, 200
_DEPLOYMENTS = PATHS["modeldeployments"]


def rows() -> list[dict[str, object]]:
    return [*_api(), *_kills(), _first_token(), *_large()]


def _row(
    name: str, value: float, unit: str, limit: float, baseline: Mapping[str, object], **more: object
) -> dict[str, object]:
    ok = value >= limit if more.get("better") == "higher" else value <= limit
    return {"id": name, "value": value, "unit": unit, "limit": limit, "ok": ok, "baseline": baseline, **more}


@contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bench-plane-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _plane(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A plane that answers, and is killed at the end with everything that it started."""
    command = [str(PROGRAM), "up", "--data", str(folder), *arguments]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True, start_new_session=True)  # noqa: S603  our own program
    try:
        while not kubeconfig.exists():
            if process.poll() is not None:
                raise SystemExit(f"the plane ended: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.005)
        yield process
    finally:
        with_group = os.getpgid(process.pid) if process.poll() is None else None
        if with_group is not None:
            os.killpg(with_group, signal.SIGKILL)
        process.wait()


def _cpu_s(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _loaded(folder: Path, process: subprocess.Popen[str], kind: str, verb: str) -> dict[str, float]:
    command = [sys.executable, str(HERE / "plane_load.py"), str(folder), kind, verb, str(CONNECTIONS), str(SECONDS)]
    before = _cpu_s(process)
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  our own program
    found: dict[str, float] = json.loads(done.stdout)
    return {**found, "cpu_s": _cpu_s(process) - before}


def _api() -> list[dict[str, object]]:
    with _folder() as folder, _plane(folder) as process:
        healthy = _loaded(folder, process, "configmaps", "health")
        read = _loaded(folder, process, "configmaps", "get")
        plain = [_loaded(folder, process, "configmaps", verb) for verb in ("create", "patch", "apply")]
        ours = [_loaded(folder, process, "modeldeployments", verb) for verb in ("patch", "apply")]
    floor = {"what": "answers of /healthz, which is HTTP and TLS alone", "value": _rate([healthy]), "unit": "/s of CPU"}
    reads = {"what": "reads of the same objects", "value": _rate([read]), "unit": "/s of CPU"}
    return [
        _rated("plane-api-reads", [read], 5000, floor),
        _rated("plane-api-writes", plain, 1000, reads),
        _rated("plane-api-writes-of-deployments", ours, 300, reads),
    ]


def _rate(loads: list[dict[str, float]]) -> int:
    return round(sum(each["count"] for each in loads) / sum(each["cpu_s"] for each in loads))


def _rated(name: str, loads: list[dict[str, float]], limit: float, baseline: Mapping[str, object]) -> dict[str, object]:
    wall = round(sum(each["count"] for each in loads) / sum(each["seconds"] for each in loads))
    p99 = round(max(each["p99_ms"] for each in loads), 1)
    return _row(name, _rate(loads), "/s of CPU", limit, baseline, better="higher", wall=wall, p99_ms=p99)


def _kills() -> list[dict[str, object]]:
    """Writers over the API, and a kill -9 of the plane and all that it started, again and again on one folder."""
    recoveries: list[float] = []
    walls: list[float] = []
    lost = 0
    with _folder() as folder:
        newest: dict[str, int] = {}
        for _ in range(KILLS):
            started = time.perf_counter()
            with _plane(folder) as process:
                found = asyncio.run(_written(folder))
                walls.append(time.perf_counter() - started)
                recoveries.append(_cpu_s(process))
                lost += sum(found.get(name, -1) < number for name, number in newest.items())
                newest = asyncio.run(_writing_until_killed(folder, process, newest))
        total = sum(newest.values())
    imports = _wall_s([sys.executable, "-c", "import modelplane.plane.plane"])
    importing = {"what": "importing what the plane is made of", "value": round(imports, 2), "unit": "s"}
    writes = {"what": f"writes acknowledged over {KILLS} kills", "value": total, "unit": "writes"}
    slowest = round(max(recoveries), 2)
    return [
        _row("plane-kill-lost", lost, "writes", 0, writes),
        _row("plane-kill-recovery", slowest, "s of CPU", 2, importing, wall=round(max(walls), 2)),
    ]


async def _written(folder: Path) -> dict[str, int]:
    """What each writer's object says, once the API answers."""
    connection, body = Connection(folder), b""
    while not body:
        try:
            await connection.open()
            _, body = await connection.ask("GET", PATHS["configmaps"])
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.005)
    connection.close()
    return {each["metadata"]["name"]: int(each["data"]["n"]) for each in json.loads(body)["items"]}


async def _writing_until_killed(
    folder: Path, process: subprocess.Popen[str], newest: Mapping[str, int]
) -> dict[str, int]:
    """Each writer counts up in an object of its own. Returns the newest that was acknowledged to each."""
    acknowledged, enough = dict(newest), asyncio.Event()

    async def write(name: str) -> None:
        connection = Connection(folder)
        try:
            await connection.open()
            while True:
                number = acknowledged.get(name, 0) + 1
                path, verb = (PATHS["configmaps"], "POST") if number == 1 else (f"{PATHS['configmaps']}/{name}", "PUT")
                status, body = await connection.ask(verb, path, configmap(name, number))
                if status not in {200, 201}:
                    raise SystemExit(f"a write was answered with {status}: {body!r}")
                acknowledged[name] = number
                if sum(acknowledged.values()) >= sum(newest.values()) + WRITES_A_LIFE:
                    enough.set()
        except (OSError, asyncio.IncompleteReadError):
            return

    writers = [asyncio.create_task(write(f"writer-{number}")) for number in range(CONNECTIONS)]
    await enough.wait()
    os.killpg(os.getpgid(process.pid), signal.SIGKILL)
    await asyncio.gather(*writers)
    return acknowledged


def _first_token() -> dict[str, object]:
    """From the start of the program to the first token that a client is streamed."""
    with _folder() as folder:
        started = time.perf_counter()
        with _plane(folder, "-f", str(EXAMPLES)):
            asyncio.run(_first_streamed(folder / "log"))
            took = time.perf_counter() - started
    imports = _wall_s([sys.executable, "-c", "import modelplane.plane.plane"])
    importing = {"what": "importing what the plane is made of", "value": round(imports, 2), "unit": "s"}
    return _row("plane-up-to-first-token", round(took, 2), "s", 10, importing)


async def _first_streamed(log: Path) -> None:
    body = json.dumps(
        {"model": "qwen3-8b", "stream": True, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
    ).encode()
    while True:
        port = _gateway_port(log)
        if port is not None and await _streamed(port, body):
            return
        await asyncio.sleep(0.02)


def _gateway_port(log: Path) -> int | None:
    found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text().partition("gateway")[2])
    return int(found[1]) if found else None


async def _streamed(port: int, body: bytes) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    head = (
        "POST /default/chat/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    try:
        async for line in reader:
            if b'"content"' in line:
                return True
    except OSError:
        pass
    finally:
        writer.close()
    return False


def _large() -> list[dict[str, object]]:
    """A large fleet: what it weighs, what a change takes, and how soon the API answers again after a kill -9."""
    with _folder() as folder:
        with _scaled(folder) as process:
            _heard(process)
            up = _heard(process)
            changes = [asyncio.run(_changed(folder, number)) for number in range(CHANGES)]
            down = _told(process)
        with _scaled(folder) as process:
            answers = _heard(process)
    size = f"{CLUSTERS} clusters, {CLUSTERS * 4} pools, {CLUSTERS} deployments, {CLUSTERS * 10} replicas"
    built = {"what": f"CPU of bringing up {size}", "value": round(up["cpu_s"]), "unit": "s"}
    worked = round((down["cpu_s"] - up["cpu_s"]) / CHANGES * 1000, 1)
    spent = {"what": "CPU of a change, with all that follows from it", "value": worked, "unit": "ms"}
    slowest = round(max(changes) * 1000, 1)
    return [
        _row("plane-large-memory", up["mb"], "MB", 1024, built, envoy_mb=up["envoy_mb"], wall_s=round(up["wall_s"])),
        _row("plane-large-change", round(median(changes) * 1000, 1), "ms", 100, spent, slowest=slowest),
        _row(
            "plane-large-recovery", round(answers["cpu_s"], 1), "s of CPU", 30, built, wall=round(answers["wall_s"], 1)
        ),
    ]


@contextmanager
def _scaled(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The plane with the large fleet, which is killed at the end."""
    command = [sys.executable, str(HERE / "plane_scale.py"), str(folder), str(CLUSTERS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  our own program
        try:
            yield process
        finally:
            process.kill()


def _heard(process: subprocess.Popen[str]) -> dict[str, float]:
    line = process.stdout.readline() if process.stdout else ""
    found: dict[str, float] = json.loads(line)
    return found


def _told(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None  # noqa: S101  it was opened with one
    process.stdin.write("\n")
    process.stdin.flush()
    return _heard(process)


async def _changed(folder: Path, number: int) -> float:
    """From sending a new number of replicas to a watcher hearing a status that knows of it."""
    name = f"model-{number * 7 % CLUSTERS:04}"
    watcher, writer = Connection(folder), Connection(folder)
    await watcher.open()
    await writer.open()
    # The revision of the list: the deployment's own may be from before what the API remembers of changes.
    only = f"fieldSelector=metadata.name%3D{name}"
    _, found = await writer.ask("GET", f"{_DEPLOYMENTS}?{only}")
    listed = json.loads(found)
    before, revision = listed["items"][0], listed["metadata"]["resourceVersion"]
    watcher.send("GET", f"{_DEPLOYMENTS}?watch=true&{only}&resourceVersion={revision}")
    await watcher.reader.readuntil(b"\r\n\r\n")
    replicas = before["spec"]["replicas"] + (1 if number % 2 else -1)
    started = time.perf_counter()
    await writer.ask(
        "PATCH", f"{_DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}}, "application/merge-patch+json"
    )
    async for line in watcher.reader:
        if line.startswith(b"{") and _knows(json.loads(line)["object"], before["metadata"]["generation"]):
            break
    took = time.perf_counter() - started
    watcher.close()
    writer.close()
    await asyncio.sleep(1)
    return took


def _knows(deployment: Mapping[str, Mapping[str, object]], generation: int) -> bool:
    conditions = deployment.get("status", {}).get("conditions")
    observed = [each["observedGeneration"] for each in conditions] if isinstance(conditions, list) else []
    return bool(observed) and min(observed) > generation


def _wall_s(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  our own program
    return time.perf_counter() - started
