"""What packages were built from: an in-toto statement with SLSA's provenance (v1), and whether files still match it.

    python tools/provenance.py FOLDER     compares the files of a folder with its statement, and fails where they differ

`build_packages.py` writes it: the files that came out with their digests, the options that were given, and what went
in: the commit, the lock file, and each Debian package. It is not signed, and who builds says it of himself: that is
SLSA's build level 1. Sign it with any tool that takes a statement where your builder has an identity.
"""

import argparse
import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATEMENT = "provenance.intoto.json"
_TYPE, _PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
_BUILD_TYPE = "https://modelplane.ai/build-packages/v1"
_BUILDER = "https://modelplane.ai/build-packages/unattested"
"""Nobody vouches for the machine."""


@dataclass(frozen=True, slots=True)
class Material:
    """Something that went into a build."""

    uri: str
    digest: Mapping[str, str]

    def descriptor(self) -> dict[str, object]:
        return {"uri": self.uri, "digest": dict(self.digest)}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source(root: Path = ROOT) -> Material:
    """The commit, marked where files differ from it: then the commit alone does not say what was built."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return Material("git+modelplane", {})
    return Material("git+modelplane" if _git(root, "status", "--porcelain") == "" else "git+modelplane?dirty",
                    {"gitCommit": commit})  # fmt: skip


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)  # noqa: S603, S607  ours
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def lock_material(path: Path) -> Material:
    return Material(f"file:{path.name}", {"sha256": sha256(path)})


def debian_materials(folder: Path) -> list[Material]:
    """Of a folder of packages, as they were fetched. Their file names have name, version and architecture."""
    found = []
    for path in sorted(folder.glob("*.deb")):
        name, version, architecture = path.stem.split("_")
        found.append(Material(f"pkg:deb/debian/{name}@{version}?arch={architecture}", {"sha256": sha256(path)}))
    return found


def statement(
    files: Iterable[Path],
    parameters: Mapping[str, object],
    materials: Sequence[Material],
    started: datetime,
    finished: datetime,
) -> dict[str, object]:
    subjects = [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in sorted(files)]
    return {
        "_type": _TYPE,
        "subject": subjects,
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": dict(parameters),
                "internalParameters": {"python": platform.python_version(), "machine": platform.machine()},
                "resolvedDependencies": [each.descriptor() for each in materials],
            },
            "runDetails": {
                "builder": {"id": _BUILDER},
                "metadata": {"startedOn": _time(started), "finishedOn": _time(finished)},
            },
        },
    }


def _time(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_statement(folder: Path, document: Mapping[str, object]) -> Path:
    path = folder / STATEMENT
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def differences(folder: Path) -> list[str]:
    """What of a folder is not what its statement says. ValueError where there is no statement."""
    try:
        document = json.loads((folder / STATEMENT).read_bytes())
        subjects = {each["name"]: each["digest"]["sha256"] for each in document["subject"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / STATEMENT} cannot be read: {error}") from error
    found = {path.name: path for path in folder.iterdir() if path.is_file() and path.name != STATEMENT}
    missing = [f"{name}: is missing" for name in sorted(subjects.keys() - found.keys())]
    unknown = [f"{name}: is not in the statement" for name in sorted(found.keys() - subjects.keys())]
    changed = [
        f"{name}: is not the file that was built"
        for name in sorted(subjects.keys() & found.keys())
        if sha256(found[name]) != subjects[name]
    ]
    return [*missing, *changed, *unknown]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compares built packages with their provenance.")
    parser.add_argument("folder", type=Path, help="the folder of the packages and of their statement")
    given = parser.parse_args(arguments)
    try:
        found = differences(given.folder)
    except ValueError as error:
        found = [str(error)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
