"""The contestants: our picker on its own HTTP/2 server, that compiled, that on grpc.aio, and the inference extension's.

The last is a Go program. It is looked for in $MODELPLANE_EPP, then where `python -m lab build picker` keeps it; where
it is not, benchmarks do without it and say so. It finds its pods at the small API of the conformance kit; all else
is as its chart starts it, without tracing. All get the same configuration, all speak plain text.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from enum import Enum
from pathlib import Path

from load.front import free_port
from modelplane.conformance.epp.kube_pool import NAMESPACE, POOL, KubePool

VARIABLE = "MODELPLANE_EPP"
CACHE_VARIABLE = "MODELPLANE_LAB_CACHE"
CONFIG = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
"""
COUNTING = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: active-request-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
"""
"""Instead of the servers' queues and caches, as they were at the last scrape: what the picker itself has sent them."""
_START_S = 90.0
_ROOT = Path(__file__).resolve().parents[2]
_COMPILED = _ROOT / "build" / "compiled"


class Which(Enum):
    OWN = "ours"
    COMPILED = "ours, compiled"
    GRPC = "ours on grpc.aio"
    GO = "Go"


def find_go_picker(environment: Mapping[str, str] = os.environ) -> Path | None:
    if named := environment.get(VARIABLE):
        return Path(named)
    caches = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", ".")) / ".cache")
    cache = Path(environment.get(CACHE_VARIABLE) or f"{caches}/modelplane-lab")
    return next(iter(sorted(cache.glob("bin/epp/v1.5.0-*/epp"))), None)


def is_compiled_there() -> bool:
    """Whether `make compiled` was run, and on the sources as they are: an older build would be another contestant."""
    words = [sys.executable, str(_ROOT / "tools" / "compile_picker.py"), "--check"]
    return subprocess.run(words, check=False).returncode == 0  # noqa: S603  our own program


@contextlib.asynccontextmanager
async def picker(
    which: Which, folder: Path, pool: tuple[str, ...] | KubePool, config: str = CONFIG, *, flags: tuple[str, ...] = ()
) -> AsyncIterator[tuple[int, int]]:
    """One that is ready: its port and its process. `flags` are further ones.

    Ours reads the pool from a file, or where it is given a Kubernetes API from there, as the Go picker does.
    """
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        environment = dict(os.environ)
        if isinstance(pool, KubePool) or which is Which.GO:
            kube = pool if isinstance(pool, KubePool) else KubePool(pool)
            served = await stack.enter_async_context(kube.serving())
            served.write_kubeconfig(folder / f"kubeconfig-{port}")
            environment["KUBECONFIG"] = str(folder / f"kubeconfig-{port}")
            found = ["--pool-name", POOL, "--pool-namespace", NAMESPACE]
        else:
            found = ["--endpoints", str(_endpoints_file(folder / f"endpoints-{port}.yaml", pool))]
        words = _go_words(port, found) if which is Which.GO else _own_words(which, port, found)
        if which is Which.COMPILED:
            environment["PYTHONPATH"] = str(_COMPILED)
        words += ["--config-text", config, "--secure-serving=false", *flags]
        log = stack.enter_context((folder / f"picker-{port}.log").open("wb"))
        process = await asyncio.create_subprocess_exec(
            *words, env=environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        stack.push_async_callback(_end, process)
        async with asyncio.timeout(_START_S):
            await _until_open(process, port, folder / f"picker-{port}.log")
        yield port, process.pid


def _endpoints_file(path: Path, pool: tuple[str, ...]) -> Path:
    pairs = [address.split(":") for address in pool]
    lines = [f"- {{name: e{at}, address: {host}, port: {on}}}\n" for at, (host, on) in enumerate(pairs)]
    path.write_text("endpoints:\n" + "".join(lines))
    return path


def _own_words(which: Which, port: int, found: list[str]) -> list[str]:
    server = "grpc" if which is Which.GRPC else "own"
    words = [sys.executable, "-m", "modelplane", "picker", "serve", *found, "--server", server]
    return [*words, "--host", "127.0.0.1", "--grpc-port", str(port), "--grpc-health-port", "0", "--metrics-port", "0"]


def _go_words(port: int, found: list[str]) -> list[str]:
    program = find_go_picker()
    if program is None:
        raise FileNotFoundError(f"no Go picker: set ${VARIABLE}, or run `python -m lab build picker`")
    words = [str(program), *found]
    words += ["--grpc-port", str(port), "--grpc-health-port", str(free_port())]
    words += ["--metrics-port", str(free_port()), "--metrics-endpoint-auth=false", "--tracing=false"]
    return [*words, "--health-checking", "-v=1"]


async def _until_open(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    while process.returncode is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the picker ended: {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text()[-2000:]


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
