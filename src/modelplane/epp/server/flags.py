"""Values of the picker's command line: times, truth values, selectors and ports as the ecosystem's flags write them."""

import re
from collections.abc import Callable
from typing import Final

from modelplane.api.errors import InputError

_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?")
_UNIT_S: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE: Final = re.compile(r"([0-9]+)(Ki|Mi|Gi|k|M|G|)")
_UNIT_BYTES: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_MOST_PORTS: Final = 8
_LARGEST_PORT: Final = 65_535
MOST_WORKERS: Final = 64


def duration(text: str) -> float:
    """Seconds of `30s`, `250ms`, `1m30s` or a bare number."""
    parts = _TIME.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InputError(f"{text!r} is no duration; write it like 30s or 250ms")
    return sum(float(number) * _UNIT_S[unit or "s"] for number, unit in parts)


def size(text: str) -> int:
    """Bytes of `32Mi`, `10M` or a bare number."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is no size; write it like 32Mi")
    return int(found[1]) * _UNIT_BYTES[found[2]]


def truth(text: str) -> bool:
    if text.lower() in {"true", "1", "yes"}:
        return True
    if text.lower() in {"false", "0", "no"}:
        return False
    raise InputError(f"{text!r} is neither true nor false")


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise InputError(f"{text!r} is no share; write a number from 0 to 1")
    return found


def port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _LARGEST_PORT:
        raise InputError(f"{text!r} is no port")
    return int(text)


def worker_count(text: str, processors: Callable[[], int]) -> int:
    """A number of processes, or `auto`: as many as there are processors."""
    if text == "auto":
        return min(processors(), MOST_WORKERS)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_WORKERS:
        raise InputError(f"--workers: {text!r} is neither auto nor a number from 1 to {MOST_WORKERS}")
    return int(text)


def ports(text: str) -> tuple[int, ...]:
    """One to eight different ports with commas between them."""
    found = tuple(port(part.strip()) for part in text.split(","))
    if not 1 <= len(found) <= _MOST_PORTS or len(set(found)) != len(found) or 0 in found:
        raise InputError(f"{text!r} is not a list of one to {_MOST_PORTS} different ports")
    return found


def selector(text: str) -> str:
    """Labels like `app=llm,role=decode`, checked."""
    parts = [part.strip() for part in text.split(",")]
    if any("=" not in part or part.startswith("=") for part in parts):
        raise InputError(f"{text!r} is no selector; write it like app=llm,role=decode")
    return ",".join(parts)


def pool(text: str) -> tuple[str, str]:
    """Namespace and name of `NAMESPACE/NAME`, or of a name in the namespace `default`."""
    namespace, separator, name = text.rpartition("/")
    if not name or (separator and not namespace) or "/" in namespace:
        raise InputError(f"{text!r} is no pool; write it like NAMESPACE/NAME")
    return namespace or "default", name
