"""The software of a workload cluster, read from stack.yaml: the one table of charts, manifests and their signs."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

from modelplane.api.objects import Json
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.semver import Version, parse_version

Stack = Literal["Standard", "Dynamo"]
_FILE: Final = "stack.yaml"
_DIGEST_DIGITS: Final = 10
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    pass


class Chart(_Row, frozen=True):
    repository: str
    name: str
    version: str


class Provides(_Row, frozen=True):
    """What a cluster shows that has a component."""

    apis: tuple[str, ...] = ()
    """API versions that it serves, such as gateway.networking.k8s.io/v1."""
    device_classes: tuple[str, ...] = ()
    gateway_classes: tuple[str, ...] = ()

    def objects(self) -> Iterator["RequiredObject"]:
        """An API version that is served has an APIService, whoever serves it."""
        for api in self.apis:
            group, _, version = api.rpartition("/")
            yield RequiredObject("apiregistration.k8s.io/v1", "APIService", f"{version}.{group}", api)
        for name in self.device_classes:
            yield RequiredObject("resource.k8s.io/v1", "DeviceClass", name, f"DeviceClass {name}")
        for name in self.gateway_classes:
            yield RequiredObject("gateway.networking.k8s.io/v1", "GatewayClass", name, f"GatewayClass {name}")


class RequiredObject(msgspec.Struct, frozen=True):
    api_version: str
    kind: str
    name: str
    shown: str
    """As people know it."""


class StackComponent(_Row, frozen=True, rename={"used_by": "for", "only_on": "onlyOn", "values_for": "valuesFor"}):
    name: str
    stacks: tuple[Stack, ...] = ("Standard", "Dynamo")
    used_by: tuple[str, ...] = ()
    only_on: tuple[str, ...] = ()
    optional: bool = False
    namespace: str = ""
    chart: Chart | None = None
    manifests: tuple[str, ...] = ()
    values: Json = {}
    values_for: dict[str, Json] = {}
    needs: dict[str, str] = {}
    provides: Provides = Provides()
    facts: dict[str, str] = {}
    images: dict[str, str] = {}
    source: str = ""
    """How its version and values are known."""

    def fits(self, stack: str, source: str) -> bool:
        """Whether a cluster can have it."""
        return stack in self.stacks and (not self.only_on or source in self.only_on)

    def is_used_by(self, features: Iterable[str]) -> bool:
        """Whether a cluster with these features needs it. Optional ones need the user's word as well."""
        return not self.used_by or not set(self.used_by).isdisjoint(features)

    def objects(self) -> tuple[Json, ...]:
        """Its manifests."""
        return tuple(item for name in self.manifests for item in _manifests(name))


class StackTable(_Row, frozen=True):
    kubernetes: str
    """The oldest version of Kubernetes."""
    components: tuple[StackComponent, ...]

    def find(self, stack: str, source: str, features: Iterable[str]) -> tuple[StackComponent, ...]:
        """The components of a cluster in the order of their installation, optional ones among them."""
        wanted = frozenset(features)
        return tuple(found for found in self.components if found.fits(stack, source) and found.is_used_by(wanted))

    @property
    def release(self) -> str:
        """A name that changes with the table and with its manifests."""
        return digest_of([(component, component.objects()) for component in self.components])


@cache
def load_stack() -> StackTable:
    """The table of this release."""
    (document,) = parse_documents((files(__package__) / _FILE).read_bytes(), source=_FILE)
    return msgspec.convert(document.value, StackTable)


def digest_of(content: object) -> str:
    """A short name for what is installed: equal content has an equal one."""
    return hashlib.sha256(_ENCODER.encode(content)).hexdigest()[:_DIGEST_DIGITS]


@cache
def _manifests(name: str) -> tuple[Json, ...]:
    text = (files(__package__) / "manifests" / name).read_bytes()
    return tuple(msgspec.convert(document.value, Json) for document in parse_documents(text, source=name))


def is_in_range(version: str, wanted: str) -> bool:
    """Whether a version meets each comparison of a range such as `>=1.8.1 <1.9.0`. A leading v does not count."""
    found = parse_version(version.removeprefix("v"), normalize=True)
    return all(_meets(found, comparison) for comparison in wanted.split())


def _meets(found: Version, comparison: str) -> bool:
    if comparison.startswith(">="):
        return parse_version(comparison[2:]) <= found
    return found < parse_version(comparison.removeprefix("<"))


def merged(values: Mapping[str, object], more: Mapping[str, object]) -> Json:
    """Values of a chart, overlaid as Helm does it: mappings are merged, the rest is replaced."""
    made = dict(values)
    for name, value in more.items():
        known = made.get(name)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        made[name] = merged(known, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return made


def at_path(path: str, value: object) -> Json:
    """The values that hold one value at a dotted path."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value if isinstance(value, dict) else {}
