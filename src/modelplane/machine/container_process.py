"""A container as a process: its words, its variables and its files on this machine.

A process has no network, no filesystem and no image of its own. So the port is a free one, paths of mounts become
folders, and a container without a command runs the program that its image is known to begin with.
"""

import base64
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelplane.api.objects import Manifest, as_mapping, items_at, mapping_at, namespace_of, text_at
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.controller import ClusterStore
from modelplane.sim.cluster.engine_command import repository_name
from modelplane.sim.cluster.pod_servers import serving_port

_PROGRAMS = (
    ("vllm", ("vllm", "serve")),
    ("llama.cpp", ("llama-server",)),
    ("text-generation-inference", ("text-generation-launcher",)),
    ("text-embeddings-inference", ("text-embeddings-router",)),
)
"""What images begin with, by a word of their names."""
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_PORT_FLAG = "--port"
_HOST_FLAGS, _LOOPBACK, _ANY = ("--host", "--hostname"), "127.0.0.1", "0.0.0.0"  # noqa: S104  what is replaced
_NOT_OURS = frozenset({"KUBECONFIG", "MODELPLANE_DATA", "CUDA_VISIBLE_DEVICES"})


class NoProgramError(Exception):
    """A container that says neither what it runs nor has an image that is known."""


@dataclass(frozen=True, slots=True)
class ContainerProcess:
    words: tuple[str, ...]
    variables: Mapping[str, str]
    folder: Path | None


def container_process(
    pod: Manifest, container: Manifest, port: int, folders: Mapping[str, Path], store: ClusterStore
) -> ContainerProcess:
    """`folders` are the places of mounts, by their paths in the container."""
    given = dict(_variables(pod, container, store))
    expanded = {name: _moved(_expand(value, given), folders) for name, value in given.items()}
    words = [_moved(_expand(word, expanded), folders) for word in _words(container)]
    workdir = text_at(container, "workingDir")
    own = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    return ContainerProcess(
        tuple(_on_loopback(_with_port(words, serving_port(pod), port))),
        {**own, "PORT": str(port), **expanded},
        Path(_moved(workdir, folders)) if workdir else None,
    )


def _words(container: Manifest) -> list[str]:
    command, args = ([str(word) for word in _list(container, field)] for field in ("command", "args"))
    if command:
        return [*command, *args]
    image = repository_name(text_at(container, "image"))
    program = next((words for word, words in _PROGRAMS if word in image), None)
    if program is None:
        raise NoProgramError(f"image {text_at(container, 'image')}: a process needs a command; give the container one")
    return [*program, *args]


def _list(container: Manifest, field: str) -> list[object]:
    found = container.get(field)
    return list(found) if isinstance(found, list | tuple) else []


def _with_port(words: list[str], declared: int, port: int) -> list[str]:
    """The words with the process's own port: where they name one, and for programs that are known to take the flag."""
    for number, word in enumerate(words):
        if word == _PORT_FLAG and number + 1 < len(words):
            return [*words[: number + 1], str(port), *words[number + 2 :]]
        if word == f"{_PORT_FLAG}={declared}":
            return [*words[:number], f"{_PORT_FLAG}={port}", *words[number + 1 :]]
    known = any(words[: len(program)] == list(program) for _, program in _PROGRAMS)
    return [*words, _PORT_FLAG, str(port)] if known or "sglang.launch_server" in words else words


def _on_loopback(words: list[str]) -> list[str]:
    """In a pod an engine listens on every address, behind the pod's policy. Here nothing stands before it."""
    found = [
        _LOOPBACK if at and word == _ANY and words[at - 1] in _HOST_FLAGS else word for at, word in enumerate(words)
    ]
    given = any(word.partition("=")[0] in _HOST_FLAGS for word in words)
    return found if given or words[:2] != ["vllm", "serve"] else [*found, _HOST_FLAGS[0], _LOOPBACK]


def _variables(pod: Manifest, container: Manifest, store: ClusterStore) -> Iterator[tuple[str, str]]:
    for entry in items_at(container, "envFrom"):
        for name, value in _whole(pod, entry, store).items():
            yield f"{text_at(entry, 'prefix')}{name}", value
    for entry in items_at(container, "env"):
        source = entry.get("valueFrom")
        found = text_at(entry, "value") if source is None else _from(pod, as_mapping(source), store)
        if found is not None:
            yield text_at(entry, "name"), found


def _whole(pod: Manifest, entry: Manifest, store: ClusterStore) -> dict[str, str]:
    for field, kind in (("secretRef", "Secret"), ("configMapRef", "ConfigMap")):
        if field in entry:
            return _data(kind, namespace_of(pod), text_at(entry, field, "name"), store)
    return {}


def _from(pod: Manifest, source: Manifest, store: ClusterStore) -> str | None:
    for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if field in source:
            data = _data(kind, namespace_of(pod), text_at(source, field, "name"), store)
            return data.get(text_at(source, field, "key"))
    path = text_at(source, "fieldRef", "fieldPath")
    return "127.0.0.1" if path == "status.podIP" else text_at(pod, *path.split("."))


def _data(kind: str, namespace: str, name: str, store: ClusterStore) -> dict[str, str]:
    found = store.get(ObjectRef("", kind, namespace, name)) or {}
    if kind == "ConfigMap":
        return {key: str(value) for key, value in mapping_at(found, "data").items()}
    return {key: base64.b64decode(str(value)).decode() for key, value in mapping_at(found, "data").items()}


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes replaces it; a name that is not known stays, and `$$` is one `$`."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def _moved(text: str, folders: Mapping[str, Path]) -> str:
    """A path in the container as the place on this machine; anything else as it is."""
    for path, folder in folders.items():
        if text == path or text.startswith(f"{path}/"):
            return f"{folder}{text[len(path) :]}"
    return text
