"""What an engine container runs, and what that is worked out from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from modelplane.api.models import Topology

LEADER_ADDRESS = "MODELPLANE_LEADER_ADDRESS"
RANK = "MODELPLANE_RANK"
GROUP_SIZE = "MODELPLANE_GROUP_SIZE"
SERVED_MODEL_NAME = "MODELPLANE_SERVED_MODEL_NAME"
"""A name that is the deployment's own in the whole fleet, for engines that are told what to call the model."""

_GROUP_ENV = ((LEADER_ADDRESS, "LWS_LEADER_ADDRESS"), (RANK, "LWS_WORKER_INDEX"), (GROUP_SIZE, "LWS_GROUP_SIZE"))


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One member of an engine whose container has no command of its own."""

    engine: str
    args: tuple[str, ...]
    role: Literal["Standalone", "Leader", "Worker"]
    nodes: int
    """Pods of one copy of the engine."""
    port: int
    topology: Topology
    coordination: Literal["Native", "Ray"]
    served_names: tuple[str, ...] = ()
    """What clients call the model when it is served from a path."""
    model_path: str | None = None
    adapters: tuple[tuple[str, str], ...] = ()
    """Name and path of each LoRA adapter."""
    phase: Literal["Prefill", "Decode"] | None = None
    """None: the engine does both."""
    transfer_backend: str = ""
    """What moves KV caches between phases, of an engine that has a flag for it. Empty: its own choice."""
    host_cache: int = 0
    """Bytes of the node's memory for KV caches that the engine keeps beside those of its devices. 0: none."""
    moved: bool = False
    """Whether the port is not the engine's own choice: another container takes its usual one."""


@dataclass(frozen=True, slots=True)
class Launch:
    command: tuple[str, ...]
    """Empty leaves the image's own."""
    args: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    """What the image's own command is, for platforms that would put theirs in its place."""
    env: tuple[dict[str, object], ...] = ()


NIXL = "nixlv2"


@dataclass(frozen=True, slots=True)
class CacheTransfer:
    """How an engine says what moves its KV caches from prefill to decode."""

    name: str
    """What is said, for messages."""
    said: Callable[[tuple[str, ...]], str | None]
    """What its words say; None where that is not known, or several ways."""
    without_verbs: str = ""
    """What it is told where nobody says that the network is InfiniBand or RoCE; empty: nothing."""
    bootstrap_flag: str = ""
    bootstrap_port: str = ""
    """Where prefill engines wait for decode engines, and what the routing sidecar expects by itself."""
    sidecar_flag: str = ""
    """How the routing sidecar is told of another port."""


@dataclass(frozen=True, slots=True)
class EngineType:
    launch: Callable[[LaunchRequest], Launch]
    label: str = ""
    """The value of `llm-d.ai/engine-type` on its pods. Empty: they have no such label."""
    health: str = "/health"
    """The path that answers once requests do."""
    port_flags: tuple[str, ...] = ("--port",)
    """The flag of its port, by every name."""
    sized: bool = True
    """Whether it is told how many devices to use."""
    kv_connector: str = NIXL
    """How the routing sidecar moves KV caches from prefill to decode."""
    kv_transfer: CacheTransfer | None = None
    """None: nothing is known of it."""


def group_env() -> list[dict[str, object]]:
    """How a pod of a gang finds the others, under names that do not depend on what made the gang."""
    return [{"name": ours, "value": f"$({theirs})"} for ours, theirs in _GROUP_ENV]


def pod_ip(name: str) -> dict[str, object]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def has_flag(args: Sequence[str], *names: str) -> bool:
    return any(arg == name or arg.startswith(f"{name}=") for arg in args for name in names)


def flag_value(args: Sequence[str], name: str) -> str | None:
    for index, arg in enumerate(args):
        if arg == name:
            return args[index + 1] if index + 1 < len(args) else ""
        if arg.startswith(f"{name}="):
            return arg.removeprefix(f"{name}=")
    return None


def without_flag(args: Sequence[str], name: str) -> tuple[str, ...]:
    """Less a flag and its one value."""
    rest: list[str] = []
    skipped = False
    for arg in args:
        if skipped or arg.startswith(f"{name}="):
            skipped = False
        elif arg == name:
            skipped = True
        else:
            rest.append(arg)
    return tuple(rest)


def first_positional(args: Sequence[str], *, alone: tuple[str, ...], many: frozenset[str]) -> int | None:
    """Where the first word is that belongs to no flag.

    The word after a flag is its value, unless the flag's name begins with one of `alone`. Flags of `many` take all
    words up to the next flag.
    """
    flag: str | None = None
    for index, arg in enumerate(args):
        if arg.startswith("-") and not arg[1:2].isdigit():
            flag = None if "=" in arg or arg.startswith(alone) else arg
        elif flag is None:
            return index
        elif flag not in many:
            flag = None
    return None


def is_path(model: str) -> bool:
    """Whether a model is named by where its files are in the container."""
    return model.startswith(("/", "."))


def names_for(request: LaunchRequest, given: str | None) -> tuple[str, ...]:
    """What a model that is served from its mount is called: as the user names it first."""
    return tuple(dict.fromkeys((*([given] if given else []), *request.served_names)))


def unless_given(args: Sequence[str], names: Sequence[str], *words: str) -> tuple[str, ...]:
    """The words of a flag, unless the user gave it under one of its names."""
    return () if has_flag(args, *names) else words
