"""What a selector mentions: constants that can never be read, and attributes and capacities of devices by name.

An API server accepts a selector with `quantity("80GiB")`; it fails on every device. Reading the tree finds that before
anything waits for such a device.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from modelplane.k8s.cel.errors import CompileError
from modelplane.k8s.cel.parser import parse
from modelplane.k8s.cel.syntax import INDEX, CallExpr, Ident, Literal, Node, Select, walk
from modelplane.k8s.quantity import is_quantity
from modelplane.k8s.semver import VersionError, parse_version

ATTRIBUTES: Final = "attributes"
CAPACITY: Final = "capacity"
_CACHED: Final = 1_024


@dataclass(frozen=True, slots=True)
class WrongConstant:
    """`quantity("80GiB")`: the function, its argument, and what would be right where that can be guessed."""

    function: str
    text: str
    guess: str = ""


@dataclass(frozen=True, slots=True, order=True)
class DeviceName:
    """`device.capacity["gpu.nvidia.com"].memory`."""

    section: str
    domain: str
    name: str


@lru_cache(maxsize=_CACHED)
def wrong_constants(text: str) -> tuple[WrongConstant, ...]:
    """Constants whose conversion fails on every device."""
    found = (_converted(node) for node in _nodes(text))
    return tuple(WrongConstant(name, given, _guess(given, reads)) for name, given, reads in found if not reads(given))


@lru_cache(maxsize=_CACHED)
def device_names(text: str) -> frozenset[DeviceName]:
    """Attributes and capacities that are read without asking whether they exist."""
    read: set[DeviceName] = set()
    tested: set[DeviceName] = set()
    for node in _nodes(text):
        found = _device_name(node)
        if found is not None:
            (tested if isinstance(node, Select) and node.test_only else read).add(found)
    return frozenset(read - tested)


def _nodes(text: str) -> Iterator[Node]:
    try:
        yield from walk(parse(text))
    except (CompileError, RecursionError):
        return


def _converted(node: Node) -> tuple[str, str, Callable[[str], bool]]:
    """Function, constant argument and whether the function takes it; for other nodes one that is taken."""
    if isinstance(node, CallExpr) and node.target is None and len(node.args) == 1:
        argument, reads = node.args[0], _READERS.get(node.function)
        if reads is not None and isinstance(argument, Literal) and isinstance(argument.value, str):
            return node.function, argument.value, reads
    return "", "", lambda _text: True


def _device_name(node: Node) -> DeviceName | None:
    if isinstance(node, Select):
        inner, name = node.operand, node.field
    elif isinstance(node, CallExpr) and node.function == INDEX:
        inner, name = node.args[0], _text(node.args[1])
    else:
        return None
    if not name or not isinstance(inner, CallExpr) or inner.function != INDEX:
        return None
    section, domain = inner.args[0], _text(inner.args[1])
    if not domain or not isinstance(section, Select) or section.field not in {ATTRIBUTES, CAPACITY}:
        return None
    device = section.operand
    return DeviceName(section.field, domain, name) if isinstance(device, Ident) and device.name == "device" else None


def _text(node: Node) -> str:
    return node.value if isinstance(node, Literal) and isinstance(node.value, str) else ""


def _guess(text: str, reads: Callable[[str], bool]) -> str:
    """The text in the spelling of Kubernetes: 80GiB is 80Gi, 80GB is 80G, 9.0 is 9.0.0."""
    candidates = (text.strip(), text.strip().removesuffix("B"), text.replace(" ", "").removesuffix("B"), f"{text}.0")
    return next((each for each in candidates if each and reads(each)), "")


def _is_version(text: str) -> bool:
    try:
        parse_version(text)
    except VersionError:
        return False
    return True


_READERS: Final[Mapping[str, Callable[[str], bool]]] = {"quantity": is_quantity, "semver": _is_version}
