"""A kubectl that is new enough: the one on PATH, or one that Go builds from the published modules.

`MODELPLANE_KUBECTL` names another. It is built once and kept in the user's cache.
"""

import fcntl
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OLDEST = (1, 27)
"""Older ones do not know the discovery documents that a current server gives."""
MODULES = "v0.36.3"
_BUILD_S = 600
_PROGRAM = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
"""
_MODULE = f"module kubectl\n\ngo 1.24\n\nrequire (\n\tk8s.io/component-base {MODULES}\n\tk8s.io/kubectl {MODULES}\n)\n"


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Where it is; without a path, why there is none."""

    path: Path | None
    reason: str = ""


def find_kubectl() -> Kubectl:
    """One that is there; else one that Go builds, which may take minutes the first time."""
    given = os.environ.get("MODELPLANE_KUBECTL") or shutil.which("kubectl")
    if given and (version := _version(Path(given))) >= OLDEST:
        return Kubectl(Path(given))
    why = f"kubectl {'.'.join(map(str, version))} is older than 1.27" if given else "there is no kubectl on PATH"
    go = shutil.which("go")
    return _built(Path(go), why) if go else Kubectl(None, f"{why}, and no Go to build one")


def find_kubectls() -> list[Path]:
    """The one that is found, and further versions that are installed beside it as `kubectl.1.N`."""
    found = find_kubectl().path
    if found is None:
        return []
    others = sorted({each.resolve() for each in found.resolve().parent.glob("kubectl.1.*")} - {found.resolve()})
    return [found, *(each for each in others if _version(each) >= OLDEST)]


def _version(path: Path) -> tuple[int, ...]:
    told = subprocess.run([path, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    found = re.search(r'"gitVersion": "v(\d+)\.(\d+)', told.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _built(go: Path, why: str) -> Kubectl:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modelplane" / f"kubectl-{MODULES}"
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / "kubectl"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not program.exists():
            said = _build(go, cache, program)
            if said:
                return Kubectl(None, f"{why}, and Go could not build one: {said}")
    return Kubectl(program)


def _build(go: Path, folder: Path, program: Path) -> str:
    """Nothing when it worked."""
    (folder / "main.go").write_text(_PROGRAM)
    (folder / "go.mod").write_text(_MODULE)
    stamp = "-X k8s.io/component-base/version.gitVersion=" + MODULES.replace("v0.", "v1.")
    command = [str(go), "build", "-mod=mod", "-trimpath", "-ldflags", f"-s -w {stamp}", "-o", f"{program}.new", "."]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_BUILD_S)
    except subprocess.TimeoutExpired:
        return f"not done after {_BUILD_S} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    Path(f"{program}.new").replace(program)
    return ""
