"""Every cluster of a fleet is drained in turn while requests come at a constant rate: how many fail.

Three simulated clusters, one model with three replicas, engines that load for ten seconds, Envoy in front: `modelplane
up` as a process, the drains by `modelplane drain --wait`, the requests from here. One in four is a stream.

    python bench/drain.py [--rate 50] [--load-s 10] [--clusters 3] [--replicas 3]
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

ROOT = Path(__file__).resolve().parent.parent
MODELPLANE = [sys.executable, "-m", "modelplane"]
MODEL = """
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {{name: model, namespace: default}}
spec:
  replicas: {replicas}
  nodeSelector: {{devices: [{{name: gpu}}]}}
  workers:
    template: {{spec: {{containers: [{{name: engine, image: vllm/vllm-openai:v0.27.1, args: [Qwen/Qwen3-8B]}}]}}}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {{name: model, namespace: default}}
spec: {{endpoints: [{{selector: {{matchLabels: {{modelplane.ai/deployment: model}}}}}}]}}
"""
_OK = 200
_EVERY_STREAM = 4
_PATIENCE_S = 240.0


@dataclass
class Answers:
    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    failed_at: list[tuple[float, str]] = field(default_factory=list)

    def add(self, began: float, status: str) -> None:
        self.statuses[status] += 1
        self.seconds.append(time.monotonic() - began)
        if status != str(_OK):
            self.failed_at.append((began, status))

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@dataclass
class Measured:
    answers: Answers
    drains_s: dict[str, float]
    seconds: float


async def ask(session: aiohttp.ClientSession, url: str, answers: Answers, *, stream: bool) -> None:
    began = time.monotonic()
    body = {"model": "Qwen/Qwen3-8B", "prompt": "hello", "max_tokens": 8, "ignore_eos": True, "stream": stream}
    try:
        async with session.post(url, json=body) as answer:
            text = await answer.text()
            whole = not stream or "[DONE]" in text
            answers.add(began, str(answer.status) if whole or answer.status != _OK else "cut short")
    except (aiohttp.ClientError, TimeoutError) as error:
        answers.add(began, type(error).__name__)


async def load(url: str, rate: float, answers: Answers, stop: asyncio.Event) -> None:
    """An open loop: a request is due at its time, whatever the others do."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        asyncio.TaskGroup() as tasks,
    ):
        began, number = time.monotonic(), 0
        while not stop.is_set():
            tasks.create_task(ask(session, url, answers, stream=number % _EVERY_STREAM == 0))
            number += 1
            await asyncio.sleep(max(began + number / rate - time.monotonic(), 0))


async def command(data: Path, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *MODELPLANE, *words, "--data", str(data), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), _PATIENCE_S)
    if process.returncode:
        raise SystemExit(f"modelplane {' '.join(words)}: {output.decode()}")
    return output.decode()


async def ready(data: Path, replicas: int) -> None:
    """Waits until every replica serves."""
    ends = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends:
        process = await asyncio.create_subprocess_exec(
            *MODELPLANE, "status", "--data", str(data), "-o", "json", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        found = json.loads(output) if output else {}
        deployments, services = found.get("deployments", ()), found.get("services", ())
        serving = [each["serving"] for each in (*deployments, *services)]
        if len(serving) > 1 and min(serving) >= replicas:
            return
        await asyncio.sleep(1)
    raise SystemExit("the replicas did not become ready")


def measure(rate: float, load_s: float, clusters: int, replicas: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        data, model, log = (Path(folder) / name for name in ("plane", "model.yaml", "log"))
        model.write_text(MODEL.format(replicas=replicas))
        words = [*MODELPLANE, "up", "--data", str(data), "--clusters", str(clusters), "-f", str(model)]
        with log.open("w") as output:
            plane = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)  # noqa: S603  our own program
        try:
            gateway = gateway_of(log)
            names = [f"sim-{number}" for number in range(1, clusters + 1)]
            return asyncio.run(drain_all(data, gateway, names, rate=rate, load_s=load_s, replicas=replicas))
        finally:
            plane.terminate()
            plane.wait()


def gateway_of(log: Path) -> str:
    """The address that the plane prints when it runs."""
    ends = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends:
        said = log.read_text()
        found = re.search(r"gateway +(\S+)", said)
        if found and "running" in said:
            return found[1].rstrip("/")
        time.sleep(1)
    raise SystemExit(f"the plane did not start:\n{log.read_text()}")


async def drain_all(
    data: Path, gateway: str, names: list[str], *, rate: float, load_s: float, replicas: int
) -> Measured:
    await ready(data, replicas)
    for name in names:
        await command(data, "sim", "slow-load", name, f"{load_s:g}")
    answers, stop, drains = Answers(), asyncio.Event(), dict[str, float]()
    began = time.monotonic()
    running = asyncio.create_task(load(f"{gateway}/default/model/v1/completions", rate, answers, stop))
    await asyncio.sleep(5)
    for name in names:
        started = time.monotonic()
        print(await command(data, "drain", "cluster", name, "--wait"), flush=True)
        drains[name] = time.monotonic() - started
        await command(data, "drain", "cluster", name, "--abort")
    await asyncio.sleep(5)
    stop.set()
    await running
    for at, status in answers.failed_at[:20]:
        print(f"failed {at - began:.1f} s after the start: {status}")
    return Measured(answers, drains, time.monotonic() - began)


def rows() -> list[dict[str, object]]:
    found = measure(50.0, 10.0, 3, 3)
    return rows_of(found)


def rows_of(found: Measured) -> list[dict[str, object]]:
    asked, failed = found.answers.statuses.total(), found.answers.statuses.total() - found.answers.statuses[str(_OK)]
    longest = max(found.drains_s.values())
    baseline = f"{asked} requests in {found.seconds:.0f} s, {len(found.drains_s)} drains"
    return [
        {"id": "drain_failed_requests", "value": failed, "unit": "requests", "limit": 0, "ok": failed == 0,
         "baseline": baseline},
        {"id": "drain_p99", "value": round(found.answers.percentile(0.99) * 1000), "unit": "ms", "limit": None,
         "ok": True, "baseline": baseline},
        {"id": "drain_longest", "value": round(longest, 1), "unit": "s", "limit": None, "ok": True,
         "baseline": baseline},
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--load-s", type=float, default=10.0)
    parser.add_argument("--clusters", type=int, default=3)
    parser.add_argument("--replicas", type=int, default=3)
    given = parser.parse_args()
    found = measure(given.rate, given.load_s, given.clusters, given.replicas)
    print(json.dumps(rows_of(found), indent=1))
    print(dict(found.answers.statuses), {name: round(seconds, 1) for name, seconds in found.drains_s.items()})
    return 0 if all(row["ok"] for row in rows_of(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
