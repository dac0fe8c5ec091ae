"""Files that an operator writes for a picker: small, read whole, and refused with the place where they are wrong."""

from collections.abc import Sequence
from pathlib import Path

from modelplane.api.errors import DocumentError, InputError
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.layout import Document

_MOST_BYTES = 1024 * 1024


def read_file(path: Path) -> bytes:
    """Reads up to the size limit and one byte. InputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path.name}: {error.strerror}") from error


def documents_of(text: bytes, source: str) -> Sequence[Document]:
    """InputError with the place where something is wrong."""
    if len(text) > _MOST_BYTES:
        raise InputError(f"{source}: more than {_MOST_BYTES} bytes")
    try:
        return parse_documents(text, source=source)
    except DocumentError as broken:
        raise InputError(str(broken)) from broken
