"""Where a person types what a page says: a checkout, kubeconfigs of administrators, kubectl, Helm and our program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.build import binary
from lab.cluster import LOOPBACK
from lab.components import COMPONENTS
from lab.control import REGISTRY_PORT
from lab.install import REPOSITORY
from lab.scenario import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.e2e.world import World

_REGISTRY = f"{LOOPBACK}:{REGISTRY_PORT}"
REPLACED = {
    "registry.example.org/team": f"{_REGISTRY}/{REPOSITORY}",
    "registry.example.org/crossplane-contrib": f"{_REGISTRY}/lab",
}
_WITHOUT_IMAGES = {"RUNTIME": "none", "PUSH_FLAGS": "--plain-http"}
_WITHIN_S = 2400.0
_PROGRAMS = ("kubectl", "helm")


def in_lab(line: str) -> str:
    """With the lab's registry in the place of the page's."""
    for words, here in REPLACED.items():
        line = line.replace(words, here)
    return line


def type_all(world: World, lines: Sequence[str]) -> int:
    for line in lines:
        world.say(f"  {line[:150]}")
        type_line(world, line)
    return len(lines)


def type_line(world: World, line: str, checkout: Path | None = None) -> str:
    """What it prints. A command that fails fails the step, with its own words."""
    checkout = checkout or Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        desk = _desk(world, Path(folder), checkout)
        environment = {
            **os.environ,
            **_WITHOUT_IMAGES,
            "PATH": os.pathsep.join([str(desk / "bin"), *_folders(world), os.environ.get("PATH", "")]),
            "PYTHONPATH": str(checkout / "src"),
            "KUBECONFIG": str(world.kubeconfigs["control"]),
        }
        command = ["bash", "-o", "pipefail", "-c", line]
        done = subprocess.run(
            command, cwd=desk, env=environment, capture_output=True, text=True, check=False, timeout=_WITHIN_S
        )
    if done.returncode:
        raise FailedError(f"`{line}` ended with {done.returncode}: {(done.stdout + done.stderr)[-900:]}")
    return done.stdout


def _folders(world: World) -> list[str]:
    return [str(binary(world.places, part).parent) for part in COMPONENTS if part.name in _PROGRAMS]


def _desk(world: World, folder: Path, checkout: Path) -> Path:
    for entry in checkout.iterdir():
        (folder / entry.name).symlink_to(entry)
    if "east" in world.kubeconfigs:
        (folder / "east-admin.yaml").write_text(world.kubeconfigs["east"].read_text())
    (folder / "bin").mkdir()
    program = folder / "bin" / "modelplane"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m modelplane "$@"\n')
    program.chmod(0o755)
    return folder
