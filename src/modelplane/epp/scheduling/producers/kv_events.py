"""KV events of engines, decoded from the wire.

A batch is `[timestamp, events, rank]`, or the same as a map; an event is `[tag, field…]` in a fixed order, of which old
servers send the first few only, or a map with the tag under `type`. Both come as msgpack over ZeroMQ; simulated engines
send the map form as JSON. Hashes are numbers or bytes, of which the last eight count.

Events that are not known are left out: newer servers may send them. Anything malformed is a `KvEventError`.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

GPU = "gpu"
_MASK = (1 << 64) - 1
_HASH_BYTES = 8
_SEQUENCE_BYTES = 8
_STORED = (
    "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
    "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
)  # fmt: skip
_REMOVED = ("block_hashes", "medium", "group_idx")


class KvEventError(ValueError):
    """A message that cannot be decoded."""


class BlockStored(msgspec.Struct, frozen=True):
    hashes: tuple[int, ...]
    parent: int | None
    tokens: tuple[int, ...]
    block_size: int
    lora: str = ""
    medium: str = GPU
    extra_keys: tuple[tuple[object, ...], ...] = ()
    """Extra keys of each block's hash; empty: none."""
    group: int = 0
    kind: str = ""
    """The attention kind of the cache; empty: unknown."""


class BlockRemoved(msgspec.Struct, frozen=True):
    hashes: tuple[int, ...]
    medium: str = GPU
    group: int = 0


class AllBlocksCleared(msgspec.Struct, frozen=True):
    pass


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KvEventBatch(msgspec.Struct, frozen=True):
    sequence: int
    """Counts up by one from batch to batch of one server."""
    events: tuple[KvEvent, ...]
    time_s: float = 0.0
    rank: int | None = None
    """The data-parallel rank that it is of."""


def read_frames(frames: Sequence[bytes]) -> tuple[str, KvEventBatch]:
    """The topic and the batch of one message: topic, sequence number, payload."""
    if len(frames) != 3:  # noqa: PLR2004  the number of frames named above
        raise KvEventError(f"a message of {len(frames)} frames; there must be topic, sequence and payload")
    topic, sequence, payload = frames
    if len(sequence) != _SEQUENCE_BYTES:
        raise KvEventError(f"a sequence number of {len(sequence)} bytes; there must be {_SEQUENCE_BYTES}")
    return topic.decode(errors="replace"), read_batch(payload, int.from_bytes(sequence, "big"))


def read_batch(payload: bytes, sequence: int) -> KvEventBatch:
    try:
        document: object = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KvEventError(f"the payload is no msgpack: {error}") from error
    return _batch(document, sequence)


def read_json(line: bytes) -> KvEventBatch:
    """A batch of a simulated engine, which carries its number itself."""
    try:
        document: object = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KvEventError(f"the line is no JSON: {error}") from error
    if not isinstance(document, Mapping):
        raise KvEventError("the line is no object")
    return _batch(document, _number(document.get("seq"), "seq"))


def pod_of(topic: str) -> tuple[str, str]:
    """The pod's id and the model in a topic `kv@pod@model`."""
    parts = topic.split("@", 2)
    if len(parts) != 3 or parts[0] != "kv":  # noqa: PLR2004  the parts named above
        raise KvEventError(f"the topic {topic!r} is not kv@pod@model")
    return parts[1], parts[2]


def _batch(document: object, sequence: int) -> KvEventBatch:
    if isinstance(document, Mapping):
        document = [document.get("ts", 0.0), document.get("events"), document.get("data_parallel_rank")]
    if not isinstance(document, list) or len(document) < 2 or not isinstance(document[1], list):  # noqa: PLR2004  time and events
        raise KvEventError("a batch must be [timestamp, events, rank]")
    time_s = document[0] if isinstance(document[0], int | float) else 0.0
    rank = document[2] if len(document) > 2 else None  # noqa: PLR2004  the third is the rank
    events = [_event(each) for each in document[1]]
    return KvEventBatch(
        sequence,
        tuple(event for event in events if event is not None),
        float(time_s),
        rank if isinstance(rank, int) else None,
    )


def _event(document: object) -> KvEvent | None:
    tag, fields = _fields(document)
    if tag == "BlockStored":
        return _stored(fields)
    if tag == "BlockRemoved":
        return BlockRemoved(_hashes(fields.get("block_hashes")), _medium(fields), _group(fields))
    return AllBlocksCleared() if tag == "AllBlocksCleared" else None


def _fields(document: object) -> tuple[object, Mapping[str, object]]:
    """The tag of an event and its fields by name, in either encoding."""
    if isinstance(document, Mapping):
        return document.get("type"), cast("Mapping[str, object]", document)
    if not isinstance(document, list) or not document:
        raise KvEventError("an event must be an array with its tag, or a map")
    names = _STORED if document[0] == "BlockStored" else _REMOVED
    return document[0], dict(zip(names, document[1:], strict=False))


def _stored(fields: Mapping[str, object]) -> BlockStored:
    hashes = _hashes(fields.get("block_hashes"))
    tokens, size = fields.get("token_ids"), _number(fields.get("block_size"), "block_size")
    if not isinstance(tokens, list | tuple) or not all(_is_token(token) for token in tokens):
        raise KvEventError("token_ids must be a list of numbers of 32 bits")
    if size < 1 or len(tokens) < len(hashes) * size:
        raise KvEventError(f"{len(tokens)} tokens for {len(hashes)} blocks of {size}")
    parent, lora, kind = (fields.get(name) for name in ("parent_block_hash", "lora_name", "kv_cache_spec_kind"))
    return BlockStored(
        hashes,
        None if parent is None else _hash(parent),
        tuple(tokens),
        size,
        lora if isinstance(lora, str) else "",
        _medium(fields),
        _extra_keys(fields.get("extra_keys")),
        _group(fields),
        kind if isinstance(kind, str) else "",
    )


def _extra_keys(found: object) -> tuple[tuple[object, ...], ...]:
    if not isinstance(found, list):
        return ()
    keys = tuple(tuple(each) if isinstance(each, list | tuple) else () for each in found)
    return keys if any(keys) else ()


def _medium(fields: Mapping[str, object]) -> str:
    medium = fields.get("medium")
    return medium.lower() if isinstance(medium, str) and medium else GPU


def _group(fields: Mapping[str, object]) -> int:
    group = fields.get("group_idx")
    return group if isinstance(group, int) else 0


def _hashes(found: object) -> tuple[int, ...]:
    if not isinstance(found, list | tuple):
        raise KvEventError("block_hashes must be a list")
    return tuple(map(_hash, found))


def _hash(found: object) -> int:
    if isinstance(found, int):
        return found & _MASK
    if isinstance(found, bytes) and found:
        return int.from_bytes(found[-_HASH_BYTES:], "big")
    raise KvEventError(f"a block hash must be a number or bytes, not {type(found).__name__}")


def _is_token(found: object) -> bool:
    return isinstance(found, int) and 0 <= found < 1 << 32


def _number(found: object, name: str) -> int:
    if not isinstance(found, int):
        raise KvEventError(f"{name} must be a whole number")
    return found
