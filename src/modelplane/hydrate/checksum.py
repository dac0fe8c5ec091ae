"""SHA-256 whose state can be stored, so that an interrupted file is not read again from its start.

hashlib hides the state of a digest. The libcrypto that hashlib itself uses has an interface with a plain structure,
`SHA256_CTX`, unchanged since 2004: eight words of state, the length, and a block in progress. It is used through
ctypes where a known answer, with the state stored and loaded half-way, comes out right. Elsewhere hashlib is used, and
`state()` is None: the part that was hashed is read again from the disk, and nothing is fetched again.
"""

import ctypes
import functools
import hashlib
import importlib
from typing import Protocol

STATE_BYTES = 112
_ROOM_BYTES = 512  # a structure that has grown is noticed, and does no harm
_DIGEST_BYTES = 32
_PROBE = bytes(range(256)) * 5 + b"x"


class Checksum(Protocol):
    def update(self, data: memoryview) -> None: ...

    def hexdigest(self) -> str:
        """The digest of everything so far; the last call."""

    def state(self) -> bytes | None:
        """What `checksum(state)` continues from; None where it cannot be stored."""


def checksum(state: bytes | None = None) -> Checksum:
    """A SHA-256, new or continued."""
    library = _library()
    if library is not None:
        return StoredChecksum(library, state)
    return PlainChecksum()


def can_store() -> bool:
    return _library() is not None


class StoredChecksum:
    def __init__(self, library: ctypes.CDLL, state: bytes | None = None) -> None:
        self._library = library
        self._context = ctypes.create_string_buffer(state or b"", _ROOM_BYTES)
        if state is None:
            library.SHA256_Init(self._context)

    def update(self, data: memoryview) -> None:
        # ctypes releases the GIL for the call, as hashlib does.
        source = (ctypes.c_char * len(data)).from_buffer(data)
        self._library.SHA256_Update(self._context, source, ctypes.c_size_t(len(data)))

    def hexdigest(self) -> str:
        digest = ctypes.create_string_buffer(_DIGEST_BYTES)
        self._library.SHA256_Final(digest, self._context)
        return digest.raw.hex()

    def state(self) -> bytes:
        return self._context.raw[:STATE_BYTES]


class PlainChecksum:
    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, data: memoryview) -> None:
        self._digest.update(data)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()

    def state(self) -> None:
        return None


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The libcrypto of hashlib, if its structure is the known one."""
    try:
        library = ctypes.CDLL(importlib.import_module("_hashlib").__file__)
        return library if _agrees(library) else None
    except (AttributeError, ImportError, OSError, TypeError):
        return None


def _agrees(library: ctypes.CDLL) -> bool:
    """The known answer comes out right, with the state stored and loaded half-way."""
    first = StoredChecksum(library, None)
    first.update(memoryview(bytearray(_PROBE[:777])))
    second = StoredChecksum(library, first.state())
    second.update(memoryview(bytearray(_PROBE[777:])))
    return second.hexdigest() == hashlib.sha256(_PROBE).hexdigest()
