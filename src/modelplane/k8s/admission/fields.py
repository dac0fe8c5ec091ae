"""Fields whose text has a grammar of its own: device selectors, quantities, ports and versions.

The table names each such field by kind. `[]` means every item of a list and `{}` every value of a map.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from modelplane.k8s.admission.paths import ROOT, MapKey, Path
from modelplane.k8s.admission.problems import Problem, collect, describe
from modelplane.k8s.cel import MAX_SELECTORS_LENGTH, CompileError, compile_selector
from modelplane.k8s.quantity import QuantityError, quantity_from_json
from modelplane.k8s.semver import VersionError, parse_version

Fault: TypeAlias = Callable[[object], str]
"""The problem of a value; the empty string if there is none."""
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_MAX_PORT: Final = 65535


def check_fields(value: object, kind: str) -> tuple[Problem, ...]:
    """The problems of fields with a grammar of their own."""
    long = _too_long(value, kind)
    if long is not None:
        return (long,)
    return collect(
        Problem(path, f"{describe(text)} is not a valid {noun}", fault)
        for pattern, noun, fault_in in _FIELDS.get(kind, ())
        for path, text in _select(value, pattern, ROOT)
        if (fault := fault_in(text))
    )


def _too_long(value: object, kind: str) -> Problem | None:
    """The first selector at which all of an object would take too long to compile."""
    seen: set[object] = set()
    size = 0
    for pattern, _, fault_in in _FIELDS.get(kind, ()):
        for path, text in _select(value, pattern, ROOT) if fault_in is _fault_in_selector else ():
            if isinstance(text, str) and text not in seen:
                seen.add(text)
                size += len(text)
            if size > MAX_SELECTORS_LENGTH:
                wrong = f"different device selectors have more than {MAX_SELECTORS_LENGTH} characters in all"
                return Problem(path, wrong, "use fewer or shorter ones")
    return None


def patterns_of(kind: str) -> frozenset[str]:
    """The fields of a kind that are checked here, as the table spells them."""
    return frozenset("".join(pattern) for pattern, _, _ in _FIELDS.get(kind, ()))


def _select(value: object, pattern: tuple[str, ...], path: Path) -> Iterator[tuple[Path, object]]:
    if not pattern:
        yield path, value
        return
    step, rest = pattern[0], pattern[1:]
    if step == "[]" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _select(item, rest, (*path, index))
    elif step == "{}" and isinstance(value, dict):
        for key, item in value.items():
            yield from _select(item, rest, (*path, MapKey(key)))
    elif isinstance(value, dict) and step[1:] in value:
        yield from _select(value[step[1:]], rest, (*path, step[1:]))


def _fault_in_selector(value: object) -> str:
    try:
        compile_selector(str(value))
    except CompileError as error:
        place = f"line {error.line}, column {error.column}: " if error.line else ""
        return f"{place}{error.message}"
    return ""


def _fault_in_quantity(value: object) -> str:
    try:
        quantity_from_json(value)
    except QuantityError:
        return "must be a number with an optional suffix, such as 80Gi or 1500m"
    return ""


def _fault_in_port(value: object) -> str:
    named = isinstance(value, str) and _PORT_NAME.fullmatch(value) is not None and "--" not in value
    if named or (isinstance(value, int) and 0 < value <= _MAX_PORT):
        return ""
    return f"must be a number from 1 to {_MAX_PORT}, or the name of a port"


def _fault_in_version(value: object) -> str:
    try:
        parse_version(str(value))
    except VersionError:
        return "must be a semantic version of three numbers, such as 9.0.0"
    return ""


def _steps(text: str) -> tuple[str, ...]:
    """`.a.b[].c` as `.a`, `.b`, `[]`, `.c`."""
    return tuple(re.findall(r"\.[A-Za-z]+|\[\]|\{\}", text))


_MEMBERS: Final = ".engines[].members[]"
_DEPLOYED: Final = ("", ".decode", ".prefill", _MEMBERS, f".template.spec{_MEMBERS}")
_TEMPLATED: Final = (".workers", ".decode.workers", ".prefill.workers", _MEMBERS, f".template.spec{_MEMBERS}")


def _selectors(*places: str) -> tuple[tuple[tuple[str, ...], str, Fault], ...]:
    return tuple((_steps(f".spec{place}[].selectors[].cel"), "device selector", _fault_in_selector) for place in places)


_QUANTITIES: Final = (
    *(
        f".{kind}[].resources.{part}{{}}"
        for kind in ("containers", "initContainers")
        for part in ("requests", "limits")
    ),
    ".volumes[].emptyDir.sizeLimit",
)
_PORTS: Final = tuple(
    f".containers[].{probe}.{action}.port"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    for action in ("httpGet", "tcpSocket")
)


def _pods(*places: str) -> tuple[tuple[tuple[str, ...], str, Fault], ...]:
    """Quantities and ports of pod templates."""
    return tuple(
        (_steps(f".spec{place}.template.spec{field}"), grammar, fault)
        for place in places
        for fields, grammar, fault in ((_QUANTITIES, "quantity", _fault_in_quantity), (_PORTS, "port", _fault_in_port))
        for field in fields
    )


_FIELDS: Final[Mapping[str, tuple[tuple[tuple[str, ...], str, Fault], ...]]] = {
    "InferenceClass": (
        (_steps(".spec.devices[].attributes{}.version"), "version", _fault_in_version),
        (_steps(".spec.devices[].capacity{}.value"), "quantity", _fault_in_quantity),
    ),
    "ModelDeployment": (
        *_selectors(*(f"{place}.nodeSelector.devices" for place in _DEPLOYED)),
        *_pods(*_TEMPLATED),
    ),
    "ModelReplica": (*_selectors(f"{_MEMBERS}.deviceRequests"), *_pods(_MEMBERS)),
}
