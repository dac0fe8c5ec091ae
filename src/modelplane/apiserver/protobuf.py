"""Bodies in the binary form of Kubernetes, for the kinds that kubectl writes so: `kubectl create namespace`, and more.

kubectl uses protobuf for the kinds that it knows, and does not fall back to JSON when writing. So these few messages
are decoded into the same plain values as JSON. Responses are always JSON, which every client reads. Fields that are not
in the tables are skipped, as protobuf requires.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final, TypeAlias

from modelplane.api.objects import Json

MAGIC: Final = b"k8s\x00"
MEDIA: Final = "application/vnd.kubernetes.protobuf"
_FIXED64: Final = 1
_LAST_BYTE: Final = 0x80
_VARINT_LONGEST: Final = 10
_SIGN: Final = 1 << 63


class _Kind(Enum):
    TEXT = auto()
    NUMBER = auto()
    TRUTH = auto()
    BLOB = auto()
    TIME = auto()
    TEXTS = auto()
    BLOBS = auto()


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: "_Kind | _Message"
    many: bool = False


_Message: TypeAlias = Mapping[int, _Field]


def _texts(**numbers: int) -> dict[int, _Field]:
    return {number: _Field(name, _Kind.TEXT) for name, number in numbers.items()}


_OWNER: Final[_Message] = {
    **_texts(kind=1, name=3, uid=4, apiVersion=5),
    6: _Field("controller", _Kind.TRUTH),
    7: _Field("blockOwnerDeletion", _Kind.TRUTH),
}
_METADATA: Final[_Message] = {
    **_texts(name=1, generateName=2, namespace=3, selfLink=4, uid=5, resourceVersion=6),
    7: _Field("generation", _Kind.NUMBER),
    8: _Field("creationTimestamp", _Kind.TIME),
    9: _Field("deletionTimestamp", _Kind.TIME),
    10: _Field("deletionGracePeriodSeconds", _Kind.NUMBER),
    11: _Field("labels", _Kind.TEXTS),
    12: _Field("annotations", _Kind.TEXTS),
    13: _Field("ownerReferences", _OWNER, many=True),
    14: _Field("finalizers", _Kind.TEXT, many=True),
}
_META: Final = _Field("metadata", _METADATA)
_REFERENCE: Final[_Message] = _texts(kind=1, namespace=2, name=3, uid=4, apiVersion=5, resourceVersion=6, fieldPath=7)
_ATTRIBUTES: Final[_Message] = _texts(namespace=1, verb=2, group=3, version=4, resource=5, subresource=6, name=7)
_ACCESS: Final[_Message] = {
    1: _Field("resourceAttributes", _ATTRIBUTES),
    2: _Field("nonResourceAttributes", _texts(path=1, verb=2)),
}

_MESSAGES: Final[Mapping[str, _Message]] = {
    "Namespace": {
        1: _META,
        2: _Field("spec", {1: _Field("finalizers", _Kind.TEXT, many=True)}),
        3: _Field("status", _texts(phase=1)),
    },
    "ConfigMap": {
        1: _META,
        2: _Field("data", _Kind.TEXTS),
        3: _Field("binaryData", _Kind.BLOBS),
        4: _Field("immutable", _Kind.TRUTH),
    },
    "Secret": {
        1: _META,
        2: _Field("data", _Kind.BLOBS),
        3: _Field("type", _Kind.TEXT),
        4: _Field("stringData", _Kind.TEXTS),
        5: _Field("immutable", _Kind.TRUTH),
    },
    "Event": {
        1: _META,
        2: _Field("involvedObject", _REFERENCE),
        **_texts(reason=3, message=4, type=9, action=12, reportingComponent=14, reportingInstance=15),
        5: _Field("source", _texts(component=1, host=2)),
        6: _Field("firstTimestamp", _Kind.TIME),
        7: _Field("lastTimestamp", _Kind.TIME),
        8: _Field("count", _Kind.NUMBER),
        10: _Field("eventTime", _Kind.TIME),
        11: _Field("series", {1: _Field("count", _Kind.NUMBER), 2: _Field("lastObservedTime", _Kind.TIME)}),
        13: _Field("related", _REFERENCE),
    },
    "DeleteOptions": {
        1: _Field("gracePeriodSeconds", _Kind.NUMBER),
        2: _Field("preconditions", _texts(uid=1, resourceVersion=2)),
        3: _Field("orphanDependents", _Kind.TRUTH),
        4: _Field("propagationPolicy", _Kind.TEXT),
        5: _Field("dryRun", _Kind.TEXT, many=True),
    },
    "SelfSubjectAccessReview": {1: _META, 2: _Field("spec", _ACCESS)},
    "SelfSubjectRulesReview": {1: _META, 2: _Field("spec", _texts(namespace=1))},
    "SubjectAccessReview": {1: _META, 2: _Field("spec", _ACCESS)},
    "SelfSubjectReview": {1: _META},
    "Scale": {
        1: _META,
        2: _Field("spec", {1: _Field("replicas", _Kind.NUMBER)}),
        3: _Field("status", {1: _Field("replicas", _Kind.NUMBER)}),
    },
}
_UNKNOWN: Final[_Message] = {1: _Field("type", _texts(apiVersion=1, kind=2)), 2: _Field("raw", _Kind.BLOB)}


def read_protobuf(raw: bytes) -> Json:
    """Decode the object in a body. Raises ValueError if it is invalid."""
    if not raw.startswith(MAGIC):
        raise ValueError("the body does not begin as the binary form does")
    envelope = _message(raw[len(MAGIC) :], _UNKNOWN)
    kinds, content = envelope.get("type"), envelope.get("raw", "")
    if not isinstance(kinds, dict) or not isinstance(content, str):
        raise ValueError("the body does not say what it is")  # noqa: TRY004  a wrong body, not a wrong call
    kind = str(kinds.get("kind", ""))
    if kind not in _MESSAGES:
        raise ValueError(f"{kind or 'an object without a kind'} is read as JSON or YAML only")
    return {**kinds, **_message(base64.b64decode(content), _MESSAGES[kind])}


def _message(raw: bytes, fields: _Message) -> Json:
    found: Json = {}
    for number, value in _parts(raw):
        field = fields.get(number)
        if field is not None:
            _add(found, field, _value(value, field.kind))
    return {name: value for name, value in found.items() if value not in ("", {})}


def _add(found: Json, field: _Field, value: object) -> None:
    known = found.get(field.name)
    if field.many:
        found[field.name] = [*(known if isinstance(known, list) else ()), value]
    elif isinstance(value, dict) and isinstance(known, dict):
        known.update(value)
    else:
        found[field.name] = value


def _value(value: int | bytes, kind: "_Kind | _Message") -> object:
    if isinstance(value, int):
        return bool(value) if kind is _Kind.TRUTH else value
    match kind:
        case _Kind.TEXT:
            return value.decode()
        case _Kind.BLOB:
            return base64.b64encode(value).decode()
        case _Kind.TIME:
            return _time(_message(value, {1: _Field("seconds", _Kind.NUMBER)}).get("seconds"))
        case _Kind.TEXTS:
            return _pair(_message(value, _texts(key=1, value=2)))
        case _Kind.BLOBS:
            return _pair(_message(value, {1: _Field("key", _Kind.TEXT), 2: _Field("value", _Kind.BLOB)}))
        case _Kind.NUMBER | _Kind.TRUTH:
            raise ValueError("a number is written as a text")
        case _:
            return _message(value, kind)


def _pair(entry: Json) -> Json:
    return {str(entry.get("key", "")): entry.get("value", "")}


def _time(seconds: object) -> str:
    if not isinstance(seconds, int):
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError) as error:
        raise ValueError(f"{seconds} is no time") from error


def _parts(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers with what they hold: a number, or bytes."""
    place = 0
    while place < len(raw):
        tag, place = _varint(raw, place)
        match tag & 7:
            case 0:
                number, place = _varint(raw, place)
                yield tag >> 3, number - (1 << 64) if number & _SIGN else number
            case 2:
                length, place = _varint(raw, place)
                if length > len(raw) - place:
                    raise ValueError("the body ends inside a field")
                yield tag >> 3, raw[place : place + length]
                place += length
            case 1 | 5:
                place += 8 if tag & 7 == _FIXED64 else 4
            case other:
                raise ValueError(f"{other} is no wire type")


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    number = 0
    for index in range(_VARINT_LONGEST):
        if place + index >= len(raw):
            raise ValueError("the body ends inside a number")
        byte = raw[place + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < _LAST_BYTE:
            return number, place + index + 1
    raise ValueError("a number has too many bytes")
