"""Content negotiation: the form of responses and of bodies."""

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from modelplane.apiserver.failures import not_acceptable

JSON: Final = "application/json"
YAML: Final = "application/yaml"
_OFFERED: Final = (JSON,)


class ObjectForm(Enum):
    """The form of objects: whole, as rows of a Table, or metadata only."""

    OBJECT = auto()
    TABLE = auto()
    PARTIAL = auto()


_FORMS: Final = {
    "": ObjectForm.OBJECT,
    "Table": ObjectForm.TABLE,
    "PartialObjectMetadata": ObjectForm.PARTIAL,
    "PartialObjectMetadataList": ObjectForm.PARTIAL,
}


@dataclass(frozen=True, slots=True)
class _Wanted:
    media: str
    parameters: dict[str, str]


def _read(header: str) -> list[_Wanted]:
    wanted: list[_Wanted] = []
    for part in header.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        pairs = (piece.partition("=") for piece in rest)
        wanted.append(_Wanted(media, {name.strip(): value.strip() for name, _, value in pairs}))
    return wanted


@lru_cache(maxsize=256)
def wanted_form(accept: str) -> ObjectForm:
    """The first form of an Accept header that can be served. ApiError (406) where there is none."""
    for each in _read(accept or "*/*"):
        if each.media not in {JSON, "*/*", "application/*"}:
            continue
        group, version = each.parameters.get("g", ""), each.parameters.get("v", "")
        form = _FORMS.get(each.parameters.get("as", ""))
        if form is ObjectForm.OBJECT or (form is not None and group == "meta.k8s.io" and version in {"v1", "v1beta1"}):
            return form
    raise not_acceptable(_OFFERED)


@lru_cache(maxsize=64)
def wants_aggregated(accept: str) -> bool:
    """Whether the client requests aggregated discovery."""
    for each in _read(accept):
        if each.media != JSON:
            continue
        parameters = each.parameters
        if not parameters.get("as"):
            return False
        if (parameters.get("g"), parameters.get("v"), parameters["as"]) == (
            "apidiscovery.k8s.io",
            "v2",
            "APIGroupDiscoveryList",
        ):
            return True
    return False


def accepts(accept: str, *media: str) -> bool:
    """Whether an Accept header names one of the media types."""
    return any(each.media in media for each in _read(accept))


def media_of(content_type: str) -> str:
    """The media type of a Content-Type header; JSON where there is none."""
    return content_type.partition(";")[0].strip().lower() or JSON
