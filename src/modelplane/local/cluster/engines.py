"""Engines behind pods: the seam that the kubelet starts them through, and the one that runs them in this process."""

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from modelplane.api.errors import InputError
from modelplane.compose.manifests import name_of
from modelplane.engine import LLAMA_8B_H200, Engine, EngineConfig, Timing
from modelplane.local.cluster.objects import namespace_of
from modelplane.local.cluster.pod_status import engine_container
from modelplane.reconcile.store import Manifest

_PROBE_TIMEOUT_S = 1.0
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True)
class Running:
    """A started engine: where it really answers."""

    host: str
    port: int


class EngineFactory(Protocol):
    """Starts and stops the servers of serving pods."""

    async def start(self, pod: Manifest, cluster: str) -> Running:
        """Return once it listens. Cancelled or failed, it leaves nothing behind."""

    async def healthy(self, running: Running) -> bool:
        """Whether its readiness probe succeeds."""

    async def stop(self, running: Running, *, grace_s: float) -> None:
        """Refuse new requests, let running ones end for up to grace_s, then cut what is left."""


class LocalEngines:
    """Simulated engines in this process, on loopback. `speed` divides every simulated time."""

    def __init__(self, *, host: str = "127.0.0.1", speed: float = 1.0, timing: Timing = LLAMA_8B_H200) -> None:
        self._host = host
        self._speed = speed
        self._timing = timing
        self._engines: dict[Running, Engine] = {}

    async def start(self, pod: Manifest, cluster: str) -> Running:
        arguments = ServeArguments.of(pod)
        config = EngineConfig(
            cluster=cluster,
            namespace=namespace_of(pod),
            pod=name_of(pod),
            models=arguments.models,
            speed=self._speed,
            timing=self._timing,
            **arguments.limits(),
        )
        engine = Engine(config)
        try:
            address = await engine.start(self._host)
        except BaseException:
            await engine.stop(grace_s=0)
            raise
        running = Running(address.host, address.port)
        self._engines[running] = engine
        return running

    async def healthy(self, running: Running) -> bool:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                return await _answers(running)
        except (OSError, TimeoutError):
            return False

    async def stop(self, running: Running, *, grace_s: float) -> None:
        engine = self._engines.pop(running, None)
        if engine is not None:
            await engine.stop(grace_s=grace_s)

    def __len__(self) -> int:
        """How many run."""
        return len(self._engines)


async def _answers(running: Running) -> bool:
    reader, writer = await asyncio.open_connection(running.host, running.port)
    try:
        writer.write(f"GET /health HTTP/1.1\r\nHost: {running.host}\r\nConnection: close\r\n\r\n".encode())
        status = await reader.readline()
        return status.split(b" ")[1:2] == [b"200"]
    finally:
        writer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """What vLLM would read from the command line of an engine container."""

    models: tuple[str, ...]
    max_model_len: int | None = None
    max_num_seqs: int | None = None

    @classmethod
    def of(cls, pod: Manifest) -> "ServeArguments":
        container = engine_container(pod) or {}
        command = _words(container, "command")
        words = list(_unwrapped([*command, *_words(container, "args")]))
        flags = _flags(words)
        served = flags.get("--served-model-name") or flags.get("--model", [])[:1]
        positional = _positional(words, whole=not command)
        return cls(
            models=tuple(served or positional or [_image_name(str(container.get("image", "")))]),
            max_model_len=_number("--max-model-len", flags),
            max_num_seqs=_number("--max-num-seqs", flags),
        )

    def limits(self) -> dict[str, int]:
        given = {"max_model_len": self.max_model_len, "max_num_seqs": self.max_num_seqs}
        return {name: value for name, value in given.items() if value is not None}


def _words(container: Mapping[str, object], field: str) -> list[str]:
    found = container.get(field)
    return [str(word) for word in found] if isinstance(found, list | tuple) else []


def _unwrapped(words: Sequence[str]) -> Iterator[str]:
    """The words of a command, with those of a shell script in place of the script."""
    for before, word in zip(["", *words], words, strict=False):
        if before.startswith("-") and before.endswith("c") and not before.startswith("--"):
            yield from shlex.split(word, comments=True)
        else:
            yield word


def _flags(words: Sequence[str]) -> dict[str, list[str]]:
    """Each option with the words that follow it, up to the next option."""
    flags: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            values = flags[name.replace("_", "-")] = [value] if equals else []
        else:
            values.append(word)
    return flags


def _positional(words: Sequence[str], *, whole: bool) -> list[str]:
    """The model after `serve`; first of all words where the image's own entry point is `vllm serve`."""
    first = words.index("serve") + 1 if "serve" in words else 0 if whole else len(words)
    return [word for word in words[first : first + 1] if not word.startswith("-")]


def _image_name(image: str) -> str:
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name or "model"


def _number(flag: str, flags: Mapping[str, Sequence[str]]) -> int | None:
    """A number as vLLM reads it: 32768, 32k (thousands) or 32K (of 1024)."""
    given = flags.get(flag)
    if not given:
        return None
    text = given[0]
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    try:
        return int(float(digits) * unit) if unit > 1 else int(digits)
    except ValueError:
        raise InputError(f"{flag}: {text!r} is not a number") from None
