"""Commands as users type them, with the kubectl of the lab and the rights of an administrator."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from lab.build import binary
from lab.components import COMPONENTS
from lab.scenario import FailedError

if TYPE_CHECKING:
    from lab.e2e.world import World

_WITHIN_S = 600.0


def typed(world: World, command: list[str]) -> str:
    """Against the control cluster; what it prints. A command that fails fails the step, with its own words."""
    done = _run(world, command)
    if done.returncode:
        raise FailedError(f"`{shlex.join(command)}` ended with {done.returncode}: {done.stderr[-600:]}")
    return done.stdout


def refused(world: World, command: list[str], words: str) -> None:
    """A command that must fail, with these words."""
    done = _run(world, command)
    if not done.returncode or words not in done.stderr:
        said = (done.stdout + done.stderr)[-600:]
        raise FailedError(f"`{shlex.join(command)}` ended with {done.returncode} and not with {words!r}: {said}")


def _run(world: World, command: list[str]) -> subprocess.CompletedProcess[str]:
    kubectl = binary(world.places, next(part for part in COMPONENTS if part.name == "kubectl"))
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(kubectl.parent), os.environ.get("PATH", "")]),
        "KUBECONFIG": str(world.kubeconfigs["control"]),
    }
    return subprocess.run(
        as_run(command), env=environment, capture_output=True, text=True, check=False, timeout=_WITHIN_S
    )


def as_run(command: list[str]) -> list[str]:
    """A command with a pipe as a shell runs it. A part that fails fails all of it."""
    if "|" not in command:
        return command
    text = " ".join(word if word == "|" else shlex.quote(word) for word in command)
    return ["bash", "-o", "pipefail", "-c", text]
