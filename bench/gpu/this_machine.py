"""A real vLLM behind the whole path: `modelplane up --this-machine`, one GPU, kubectl's manifests, the gateway.

    VLLM_PYTHON=… python -m gpu.this_machine FOLDER     # prints one JSON object

`vllm` must be in PATH. Weights are dummies in the shape of an 8B Llama, as in `gpu.engines`.
"""

import asyncio
import json
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp

from gpu.engines import make_model

_PATIENCE_S: Final = 400.0
_REQUESTS: Final = 60
_MODEL: Final = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {{name: llama, namespace: default}}
spec:
  labels: {{app: llama}}
  nodeSelector: {{devices: [{{name: gpu, selectors: [{{cel: 'device.driver == "gpu.nvidia.com"'}}]}}]}}
  workers:
    template:
      spec:
        containers:
        - name: engine
          image: vllm/vllm-openai:v0.20.2
          args: [{model}, --load-format, dummy, --enforce-eager, --max-model-len, "8192"]
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {{name: llama, namespace: default}}
spec: {{endpoints: [{{selector: {{matchLabels: {{app: llama}}}}}}]}}
"""


async def measure(folder: Path) -> dict[str, object]:
    manifest = folder / "model.yaml"
    manifest.write_text(_MODEL.format(model=make_model(folder, os.environ["VLLM_PYTHON"])))
    async with _plane(folder, manifest) as gateway, aiohttp.ClientSession() as session:
        service = f"{gateway}/default/llama/v1"
        began = time.monotonic()
        models = await _until_served(session, service)
        ready_s = time.monotonic() - began
        engine = f"http://127.0.0.1:{_port_of_engine()}/v1"
        direct, through = await _compared(session, (engine, service))
        os.kill(_engine(), 9)
        killed = time.monotonic()
        await _until_refused(session, service)
        await _until_served(session, service)
        return {
            "models": models,
            "first answer, s": round(ready_s, 1),
            "TTFT p50 of the engine alone, ms": _ms(statistics.median(direct)),
            "TTFT p50 through the gateway, ms": _ms(statistics.median(through)),
            "answers again after SIGKILL, s": round(time.monotonic() - killed, 1),
            "gpus": _visible_devices(),
        }


@asynccontextmanager
async def _plane(folder: Path, manifest: Path) -> AsyncIterator[str]:
    words = ("up", "--this-machine", "--data", str(folder / "plane"), "-f", str(manifest))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "modelplane", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None  # noqa: S101  it was asked for
    try:
        while line := (await process.stdout.readline()).decode():
            sys.stderr.write(line)
            if found := re.search(r"gateway +(\S+)", line):
                reading = asyncio.create_task(_drain(process.stdout))
                yield found[1]
                reading.cancel()
                return
    finally:
        process.terminate()
        await process.wait()


async def _drain(output: asyncio.StreamReader) -> None:
    while line := await output.readline():
        sys.stderr.write(line.decode())


async def _until_served(session: aiohttp.ClientSession, service: str) -> list[str]:
    async with asyncio.timeout(_PATIENCE_S):
        while (found := await _models(session, service)) is None:  # noqa: ASYNC110  a process tells no event
            await asyncio.sleep(0.2)
        return found


async def _until_refused(session: aiohttp.ClientSession, service: str) -> None:
    async with asyncio.timeout(60):
        while await _models(session, service) is not None:  # noqa: ASYNC110  a process tells no event
            await asyncio.sleep(0.05)


async def _models(session: aiohttp.ClientSession, service: str) -> list[str] | None:
    try:
        async with session.get(f"{service}/models") as response:
            if response.status != HTTPStatus.OK:
                return None
            return [str(entry["id"]) for entry in (await response.json())["data"]]
    except aiohttp.ClientConnectionError:
        return None


async def _compared(session: aiohttp.ClientSession, bases: tuple[str, str]) -> tuple[list[float], list[float]]:
    """Requests in turn, so that both meet the same engine."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(_REQUESTS):
        for base, found in zip(bases, times, strict=True):
            found.append(await _first_token_s(session, base, f"{number} of {base} " * 40))
    return times


async def _first_token_s(session: aiohttp.ClientSession, base: str, prompt: str) -> float:
    body = {"model": "llama", "messages": [{"role": "user", "content": prompt}], "max_tokens": 8, "stream": True}
    began = time.monotonic()
    async with session.post(f"{base}/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if b'"content"' in line:
                return time.monotonic() - began
    raise RuntimeError("the stream ended without a token")


def _engine() -> int:
    """The process of the engine: the leader of its session."""
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found = words.read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(words.parent.name)
        if b"serve" in found and b"dummy" in found and os.getsid(pid) == pid:
            return pid
    raise RuntimeError("no engine runs")


def _port_of_engine() -> int:
    words = Path(f"/proc/{_engine()}/cmdline").read_bytes().split(b"\0")
    return int(words[words.index(b"--port") + 1])


def _visible_devices() -> str:
    variables = Path(f"/proc/{_engine()}/environ").read_bytes().split(b"\0")
    return next(each.decode() for each in variables if each.startswith(b"CUDA_VISIBLE_DEVICES="))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(measure(Path(sys.argv[1]))), indent=1) + "\n")
