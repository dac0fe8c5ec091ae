"""The nodes of the catalogue, read from the package's data and found by name, alias or words."""

import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Annotated, Final, Literal

import msgspec

from modelplane.api.errors import InputError
from modelplane.k8s.admission.documents import parse_documents

Fabric = Literal["EFA", "InfiniBand", "RoCE", "GPUDirect-TCPX", "GPUDirect-TCPXO", "NVL72"]
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class _CatalogEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    source: str
    """Where the values come from."""


class GpuProduct(_CatalogEntry, frozen=True):
    """A GPU as its DRA driver publishes it."""

    name: str
    driver: Literal["gpu.nvidia.com", "gpu.amd.com"]
    attributes: dict[str, dict[str, str]]
    memory: str
    """As the driver reports it."""


class Machine(_CatalogEntry, frozen=True):
    """A node of a cloud, or one of no cloud (`bare`)."""

    cloud: str
    type: str
    product: str
    count: Annotated[int, msgspec.Meta(ge=1, le=16)]
    cpu: int | None = None
    memory: str | None = None
    network_gbps: float | None = None
    fabric: Fabric | None = None
    efa: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    """EFA interfaces, each on a network card of its own."""
    efa_from_card: int = 0
    """The first card that has one."""
    price: str | None = None
    """On demand, US dollars an hour."""
    price_date: str = ""
    region: str = ""
    """Of the price."""
    provisioning: str | None = None
    """What can make such a node."""

    @property
    def alias(self) -> str:
        return f"{self.cloud}:{self.type}"

    @property
    def name(self) -> str:
        """The name of its InferenceClass."""
        short = self.type.removeprefix("Standard_")
        plain = short if self.cloud == "bare" else f"{self.cloud}-{short}"
        return _NOT_IN_NAMES.sub("-", plain.lower()).strip("-")


class Catalog(msgspec.Struct, frozen=True):
    products: dict[str, GpuProduct]
    machines: tuple[Machine, ...]

    def find(self, wanted: str) -> Machine:
        """By the name of its class, its alias (`aws:p5.48xlarge`) or its type alone; InputError with the nearest."""
        by_name = {key: machine for machine in self.machines for key in (machine.type, machine.alias, machine.name)}
        if wanted in by_name:
            return by_name[wanted]
        near = get_close_matches(wanted, by_name, 3)
        guess = f"; did you mean {' or '.join(near)}?" if near else "; 'modelplane catalog list' shows all"
        raise InputError(f"the catalogue has no node {wanted!r}{guess}")

    def search(self, words: tuple[str, ...]) -> tuple[Machine, ...]:
        """Nodes whose description has every word."""
        wanted = [word.lower() for word in words]
        return tuple(machine for machine in self.machines if all(word in self._text(machine) for word in wanted))

    def _text(self, machine: Machine) -> str:
        product = self.products[machine.product]
        attributes = " ".join(text for value in product.attributes.values() for text in value.values())
        parts = (machine.alias, machine.name, product.name, product.driver, attributes, machine.fabric or "")
        return " ".join((*parts, f"{machine.count}x")).lower()


@cache
def load_catalog() -> Catalog:
    products = msgspec.convert(_data("products.yaml"), tuple[GpuProduct, ...])
    machines = msgspec.convert(_data("machines.yaml"), tuple[Machine, ...])
    return Catalog({product.name: product for product in products}, machines)


def _data(name: str) -> object:
    (document,) = parse_documents(files(__package__).joinpath(name).read_bytes(), source=name)
    return document.value
