"""Builders for device objects in the form of resource.k8s.io/v1: a test names what matters and leaves the rest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from modelplane.k8s.dra import (
    Features,
    Outcome,
    allocate,
    decode_claims,
    decode_classes,
    decode_in_use,
    decode_node,
    decode_slices,
)

Document: TypeAlias = dict[str, object]

DRIVER = "gpu.example.com"
POOL = "pool-1"
NODE = "node-1"


def a_node(name: str = NODE, **labels: str) -> Document:
    """A node with labels."""
    return {"metadata": {"name": name, "labels": labels}}


def a_device(name: str, *, memory: str | None = None, **fields: object) -> Document:
    """A device; plain values among `fields` become attributes, API fields (in camel case) stay as they are."""
    attributes = {key: _attribute(value) for key, value in fields.items() if isinstance(value, str | int)}
    device: Document = {"name": name, "attributes": attributes}
    if memory is not None:
        device["capacity"] = {"memory": {"value": memory}}
    device.update({key: value for key, value in fields.items() if not isinstance(value, str | int)})
    return device


def _attribute(value: str | int) -> Document:
    if isinstance(value, str):
        return {"string": value}
    return {"bool" if isinstance(value, bool) else "int": value}


def shareable(device: Document, policy: Document | None = None) -> Document:
    """The same device, open to several claims at once, with a policy for its memory."""
    capacity = {"memory": {"value": "80Gi", **({"requestPolicy": policy} if policy else {})}}
    return {**device, "capacity": capacity, "allowMultipleAllocations": True}


def a_slice(devices: Sequence[Document] | None, name: str = "slice-1", **fields: object) -> Document:
    """A slice on the default node and pool; `fields` of its spec replace the defaults, and None removes one."""
    spec: Document = {
        "driver": DRIVER,
        "pool": {"name": POOL, "generation": 1, "resourceSliceCount": 1},
        "nodeName": NODE,
        "devices": None if devices is None else list(devices),
        **fields,
    }
    return {"metadata": {"name": name}, "spec": {key: value for key, value in spec.items() if value is not None}}


def a_pool(name: str = POOL, *, slices: int = 1, generation: int = 1) -> Document:
    """The pool field of a slice."""
    return {"name": name, "generation": generation, "resourceSliceCount": slices}


def a_class(name: str = "gpu", *selectors: str) -> Document:
    """A device class with selectors."""
    return {"metadata": {"name": name}, "spec": {"selectors": cel(*selectors)}}


def cel(*expressions: str) -> list[Document]:
    """Selectors that are CEL expressions."""
    return [{"cel": {"expression": expression}} for expression in expressions]


def a_subrequest(*selectors: str, **fields: object) -> Document:
    """The fields of a request or subrequest, of the default class."""
    subrequest: Document = {"deviceClassName": "gpu", **fields}
    if selectors:
        subrequest["selectors"] = cel(*selectors)
    return subrequest


def a_request(name: str, *selectors: str, **fields: object) -> Document:
    """A request for exactly one thing."""
    return {"name": name, "exactly": a_subrequest(*selectors, **fields)}


def a_choice(name: str, **alternatives: Document) -> Document:
    """A request with alternatives in order of preference."""
    return {"name": name, "firstAvailable": [{**fields, "name": key} for key, fields in alternatives.items()]}


def a_claim(*requests: Document, name: str = "claim-0", constraints: Iterable[Document] = ()) -> Document:
    """A claim."""
    devices: Document = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    return {"metadata": {"name": name}, "spec": {"devices": devices}}


def in_use(device: str, **fields: object) -> Document:
    """A device of the default pool that another claim holds."""
    return {"driver": DRIVER, "pool": POOL, "device": device, **fields}


def allocated_by(  # noqa: PLR0913  the inputs of an allocation, each with a default
    claims: Sequence[Document],
    slices: Sequence[Document],
    *,
    classes: Sequence[Document] = (),
    node: Mapping[str, object] | None = None,
    allocated: Sequence[Document] = (),
    features: Features | None = None,
    max_steps: int = 100_000,
) -> Outcome:
    """Run one allocation on documents."""
    return allocate(
        decode_claims(claims),
        decode_node(node or a_node()),
        decode_slices(slices),
        classes=decode_classes(classes or [a_class()]),
        allocated=decode_in_use(allocated),
        features=features,
        max_steps=max_steps,
    )
