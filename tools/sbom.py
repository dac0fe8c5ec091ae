"""The parts of a release: an SBOM (CycloneDX 1.6) and a list of licences, from the lock files and without a network.

    python tools/sbom.py                          writes dist/sbom/*.cdx.json and dist/sbom/licences.md
    python tools/sbom.py --advisories FOLDER      also compares with advisories in OSV's JSON form, and fails on a hit

Names, versions and hashes are those of the locks. Licences are those that installed packages declare; a locked package
that is not installed here, such as one for another platform, has none. The audit knows what the folder has: an export
of the OSV database for PyPI, or a clone of PyPA's advisory database, fetched elsewhere. It compares the versions that
an advisory lists, and ranges of events, and says nothing about what is not in the folder.
"""

import argparse
import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

import yaml
from packaging.version import InvalidVersion, Version

from modelplane.api.version import __version__

ROOT = Path(__file__).resolve().parents[1]
LOCKS = tuple(sorted(path.name for path in ROOT.glob("requirements*.lock")))
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CLASSIFIER = "License :: OSI Approved :: "
_UNKNOWN = "not declared"


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """A line of a lock file."""

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str = ""

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Finding:
    """An advisory that a locked package is within."""

    package: LockedPackage
    advisory: str
    summary: str


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(text: str) -> tuple[LockedPackage, ...]:
    """The packages of a lock file. ValueError for a package without a hash."""
    found: list[LockedPackage] = []
    for line in text.splitlines():
        pinned = _PINNED.match(line)
        if pinned is not None:
            found.append(LockedPackage(normalized(pinned[1]), pinned[2], (), (pinned[3] or "").strip()))
        elif (hashed := _HASH.search(line)) and found:
            last = found[-1]
            found[-1] = LockedPackage(last.name, last.version, (*last.hashes, hashed[1]), last.marker)
    bare = next((package.name for package in found if not package.hashes), None)
    if bare is not None:
        raise ValueError(f"{bare} has no hash")
    return tuple(found)


def licences(installed: Iterable[Distribution]) -> dict[str, str]:
    """What installed packages declare, by name and version as in a purl."""
    return {f"{normalized(each.name)}@{each.version}": _licence(each) for each in installed}


def _licence(package: Distribution) -> str:
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classified = [
        str(text).removeprefix(_CLASSIFIER)
        for text in metadata.get_all("Classifier") or ()
        if str(text).startswith(_CLASSIFIER)
    ]
    written = metadata["License"].strip().partition("\n")[0] if "License" in metadata else ""
    return " and ".join(classified) or written or _UNKNOWN


def bill_of_materials(lock: str, packages: Sequence[LockedPackage], known: dict[str, str]) -> dict[str, object]:
    """A CycloneDX document. The same lock gives the same document."""
    digest = hashlib.sha256(json.dumps([(p.purl, p.hashes) for p in packages]).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/modelplane@{__version__}",
                "name": "modelplane",
                "version": __version__,
            },
            "properties": [{"name": "modelplane:lock", "value": lock}],
        },
        "components": [_component(package, known) for package in packages],
        "dependencies": [
            {"ref": f"pkg:pypi/modelplane@{__version__}", "dependsOn": [package.purl for package in packages]}
        ],
    }


def _component(package: LockedPackage, known: dict[str, str]) -> dict[str, object]:
    licence = known.get(f"{package.name}@{package.version}", _UNKNOWN)
    component: dict[str, object] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "properties": [{"name": "modelplane:sha256", "value": each} for each in package.hashes],
    }
    if licence != _UNKNOWN:
        component["licenses"] = [{"license": {"name": licence}}]
    return component


def licence_list(packages: Iterable[LockedPackage], known: dict[str, str]) -> str:
    rows = sorted({(p.name, p.version, known.get(f"{p.name}@{p.version}", _UNKNOWN)) for p in packages})
    lines = [f"| {name} | {version} | {licence} |" for name, version, licence in rows]
    return "\n".join(("| package | version | licence |", "|---|---|---|", *lines, ""))


def audit(packages: Iterable[LockedPackage], advisories: Iterable[dict[str, object]]) -> tuple[Finding, ...]:
    """The locked packages that an advisory affects."""
    by_name: dict[str, list[LockedPackage]] = {}
    for package in packages:
        by_name.setdefault(package.name, []).append(package)
    found = {
        Finding(package, str(advisory.get("id", "")), str(advisory.get("summary", "")))
        for advisory in advisories
        if "withdrawn" not in advisory
        for affected in _dicts(advisory.get("affected"))
        for package in by_name.get(_affected_name(affected), ())
        if _is_affected(package.version, affected)
    }
    return tuple(sorted(found, key=lambda each: (each.package.name, each.advisory)))


def _dicts(value: object) -> Iterator[dict[str, object]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _affected_name(affected: dict[str, object]) -> str:
    package = affected.get("package")
    if not isinstance(package, dict) or package.get("ecosystem") != "PyPI":
        return ""
    return normalized(str(package.get("name", "")))


def _is_affected(version: str, affected: dict[str, object]) -> bool:
    listed = affected.get("versions")
    if isinstance(listed, list) and version in listed:
        return True
    ranges = (each for each in _dicts(affected.get("ranges")) if each.get("type") == "ECOSYSTEM")
    return any(_within(Version(version), tuple(_dicts(each.get("events")))) for each in ranges)


def _within(version: Version, events: Sequence[dict[str, object]]) -> bool:
    """Whether the last event at or before a version introduced the fault, as OSV evaluates a range."""
    inside = False
    for event in events:
        introduced, fixed, last = (event.get(name) for name in ("introduced", "fixed", "last_affected"))
        if introduced is not None and (introduced == "0" or version >= _version(introduced)):
            inside = True
        if (fixed is not None and version >= _version(fixed)) or (last is not None and version > _version(last)):
            inside = False
    return inside


def _version(text: object) -> Version:
    try:
        return Version(str(text))
    except InvalidVersion:
        return Version("0")


def read_advisories(folder: Path) -> Iterator[dict[str, object]]:
    """In JSON, as OSV exports them, or in YAML, as PyPA keeps them."""
    for path in sorted([*folder.rglob("*.json"), *folder.rglob("*.yaml")]):
        text = path.read_bytes()
        value = json.loads(text) if path.suffix == ".json" else yaml.load(text, yaml.CSafeLoader)
        if isinstance(value, dict):
            yield value


def _newest(advisories: Iterable[dict[str, object]]) -> str:
    return max(str(each.get("modified", ""))[:10] for each in advisories)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="SBOM, licences and audit of the locked dependencies, offline.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "sbom")
    parser.add_argument("--advisories", type=Path, help="a folder of advisories in OSV's JSON form")
    given = parser.parse_args(arguments)
    known = licences(distributions())
    given.out.mkdir(parents=True, exist_ok=True)
    everything: list[LockedPackage] = []
    for lock in LOCKS:
        packages = read_lock((ROOT / lock).read_text())
        everything += packages
        document = json.dumps(bill_of_materials(lock, packages, known), indent=1) + "\n"
        (given.out / f"{Path(lock).stem}.cdx.json").write_text(document)
    (given.out / "licences.md").write_text(licence_list(everything, known))
    sys.stdout.write(f"{len(everything)} locked packages in {len(LOCKS)} files: {given.out}\n")
    if given.advisories is None:
        return 0
    advisories = list(read_advisories(given.advisories))
    if not advisories:
        sys.stdout.write(f"{given.advisories} has no advisories\n")
        return 1
    findings = audit(everything, advisories)
    for each in findings:
        sys.stdout.write(f"{each.package.name} {each.package.version}: {each.advisory} {each.summary}\n")
    sys.stdout.write(f"{len(advisories)} advisories, newest of {_newest(advisories)}: {len(findings)} findings\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
