"""Builds the lab's programs from published modules and keeps them by version, outside the checkout.

Go verifies every download against its checksum database; two checks of our own come on top (``components``). A program
enters the cache by one rename, after both checks: a build that was interrupted leaves nothing that looks finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.components import COMPONENTS, SOURCES, Component, Module, Recipe, Set
from lab.pins import CONTENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from lab.places import Places

_RECIPE_DIGITS = 8
_PINNED_MACHINE = "x86_64"


class BuildError(Exception):
    """A program could not be had; the sentence says which and why."""


class GoMissingError(BuildError):
    """There is no Go toolchain on this machine, or one that is too old."""


class ModulesAwayError(BuildError):
    """Go could not download what it builds from: a matter of the network, not of what is built."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The Go command and the settings each call to it gets."""

    go: Path
    jobs: int

    def environment(self, *, modules: str) -> dict[str, str]:
        return {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOWORK": "off",  # archives may carry a go.work that names folders which they lack
            "GOFLAGS": f"-mod={modules} -buildvcs=false -p={self.jobs}",
            "GOMAXPROCS": str(self.jobs),
            "GOTOOLCHAIN": "local",
        }

    def run(self, *arguments: str, folder: Path, modules: str = "mod") -> str:
        command = [str(self.go), *arguments]
        environment = self.environment(modules=modules)
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
            raise _refusal(f"`go {' '.join(arguments)}` in {folder} ended with {done.returncode}:\n{tail}")
        return done.stdout


_TOO_OLD = "requires go >="
_AWAY = (
    "dial tcp",
    "no such host",
    "i/o timeout",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "proxyconnect",
    "TLS handshake",
    "x509: ",
    "403 Forbidden",
    "407 Proxy",
    "429 Too Many",
    "502 Bad",
    "503 Service",
    "504 Gateway",
    "disabled by GOPROXY",
)


def _refusal(sentence: str) -> BuildError:
    """Tells apart what a person on this machine would do about it."""
    if _TOO_OLD in sentence:
        return GoMissingError(f"the `go` on the PATH is too old: {sentence}")
    if any(sign in sentence for sign in _AWAY):
        return ModulesAwayError(f"modules could not be downloaded; is the Go proxy (GOPROXY) within reach? {sentence}")
    return BuildError(sentence)


def find_go(jobs: int) -> Toolchain:
    path = shutil.which("go")
    if path is None:
        raise GoMissingError("there is no `go` on the PATH: the lab builds its components with Go 1.26 or newer")
    return Toolchain(Path(path), jobs)


def binary(places: Places, component: Component) -> Path:
    """Where a component's program is or will be; a changed recipe is a different place."""
    module = component.module
    facts = [module.path, module.version, module.checksum, component.package, component.main, *component.flags]
    facts += [f"{path}@{version}" for path, version in module.replaces] + [module.staging]
    recipe = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:_RECIPE_DIGITS]
    return places.cache / "bin" / component.name / f"{module.version}-{recipe}" / component.name


def missing(places: Places, sets: Collection[Set]) -> tuple[Component, ...]:
    return tuple(part for part in selected(sets) if not binary(places, part).is_file())


def selected(sets: Collection[Set]) -> tuple[Component, ...]:
    return tuple(part for part in COMPONENTS if part.set in sets)


def build_all(places: Places, sets: Collection[Set], jobs: int, say: Callable[[str], None]) -> None:
    """Build what the cache lacks, and fetch the modules whose manifests the lab reads."""
    wanted = missing(places, sets)
    toolchain = find_go(jobs)
    for module in modules_of(sets):
        _download(toolchain, module)
    for number, component in enumerate(wanted, start=1):
        say(f"[{number}/{len(wanted)}] building {component.name} {component.module.version}")
        seconds = _build(toolchain, places, component, say)
        size = binary(places, component).stat().st_size / 1e6
        say(f"[{number}/{len(wanted)}] {component.name}: {seconds:.0f} s, {size:.0f} MB")


def modules_of(sets: Collection[Set]) -> Iterable[Module]:
    """What programs are built from, and what is read for its manifests."""
    needed = [part.module for part in selected(sets)] + [*SOURCES]
    return dict.fromkeys(needed)


def module_folders(modules: Iterable[Module]) -> dict[Module, Path]:
    """The unpacked modules in Go's module cache: their manifests are the lab's, unchanged."""
    toolchain = find_go(1)
    cache = Path(toolchain.run("env", "GOMODCACHE", folder=Path("/")).strip())
    placed = {module: cache / f"{_escaped(module.path)}@{module.version}" for module in modules}
    return {module: path if path.is_dir() else _download(toolchain, module) for module, path in placed.items()}


def _escaped(path: str) -> str:
    """A module's path as Go writes it to disk: capitals cannot be told apart everywhere."""
    return "".join(f"!{each.lower()}" if each.isupper() else each for each in path)


def _download(toolchain: Toolchain, module: Module) -> Path:
    said = toolchain.run("mod", "download", "-json", f"{module.path}@{module.version}", folder=Path("/"))
    facts: dict[str, str] = json.loads(said)
    if facts["Sum"] != module.checksum:
        raise BuildError(f"{module.path} {module.version} has checksum {facts['Sum']}, not {module.checksum}")
    return Path(facts["Dir"])


def _build(toolchain: Toolchain, places: Places, component: Component, say: Callable[[str], None]) -> float:
    began = time.monotonic()
    target = binary(places, component)
    target.parent.mkdir(parents=True, exist_ok=True)
    unchecked = target.with_suffix(f".{os.getpid()}.part")
    try:
        _compile(toolchain, places, component, unchecked)
        _check_contents(toolchain, component, unchecked, say)
        unchecked.replace(target)
    finally:
        unchecked.unlink(missing_ok=True)
    return time.monotonic() - began


def _compile(toolchain: Toolchain, places: Places, component: Component, target: Path) -> None:
    linker = " ".join(("-s", "-w", *component.flags))
    source = _download(toolchain, component.module)
    if component.module.recipe is Recipe.IN_PLACE:
        folder, package, modules = source, f"./{component.package}", "readonly"
    else:
        folder, package = _wrap(toolchain, places, component, source)
        modules = "mod"
    toolchain.run("build", "-trimpath", "-ldflags", linker, "-o", str(target), package, folder=folder, modules=modules)


def _wrap(toolchain: Toolchain, places: Places, component: Component, source: Path) -> tuple[Path, str]:
    """A module that requires the real one and repeats its ``replace`` lines, which Go honours in a main module only."""
    module = component.module
    folder = places.cache / "wrappers" / component.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    own = json.loads(toolchain.run("mod", "edit", "-json", str(source / "go.mod"), folder=Path("/")))
    lines = [f"module lab/{component.name}", f"go {own['Go']}", f"require {module.path} {module.version}"]
    lines += [f"replace {old} => {new} {version}" for old, new, version in _replacements(module, own)]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    shutil.copyfile(source / "go.sum", folder / "go.sum")
    if component.main:
        (folder / "main.go").write_text(component.main)
        return folder, "."
    package = f"{module.path}/{component.package}"
    # Only a package that is imported counts as required; the tag keeps this file out of every build.
    (folder / "tools.go").write_text(f'//go:build tools\n\npackage tools\n\nimport _ "{package}"\n')
    return folder, package


def _replacements(module: Module, own: dict[str, list[dict[str, dict[str, str]]]]) -> Iterable[tuple[str, str, str]]:
    """The module's own replacements that name a version, then ours for those that name a folder of its repository."""
    for line in own.get("Replace") or ():
        if version := line["New"].get("Version"):
            yield line["Old"]["Path"], line["New"]["Path"], version
        elif module.staging and line["Old"]["Path"].startswith("k8s.io/"):
            yield line["Old"]["Path"], line["Old"]["Path"], module.staging
    for path, version in module.replaces:
        yield path, path, version


def _check_contents(toolchain: Toolchain, component: Component, program: Path, say: Callable[[str], None]) -> None:
    found = contents_digest(toolchain.run("version", "-m", str(program), folder=Path("/")))
    pinned = CONTENTS.get(component.name) if platform.machine() == _PINNED_MACHINE else None
    if pinned is None:
        say(f"{component.name} is not pinned here: the list of its modules digests to {found}")
    elif found != pinned:
        raise BuildError(
            f"{component.name} was built from other modules than pinned: the list of its modules digests to {found}, "
            f"expected {pinned}"
        )


def contents_digest(listing: str) -> str:
    """A digest of the modules and checksums in ``go version -m``, whatever the toolchain or build settings."""
    kept = sorted(line.strip() for line in listing.splitlines() if line.strip().startswith(("dep\t", "=>\t")))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()
