"""The API of a path: its longest known suffix."""

from functools import lru_cache
from typing import Final

from modelplane.epp.scheduling.requests import InferenceApi

_ENDS: Final = {
    "chat/completions": InferenceApi.CHAT,
    "chat/completions/render": InferenceApi.CHAT,
    "completions": InferenceApi.COMPLETIONS,
    "completions/render": InferenceApi.COMPLETIONS,
    "responses": InferenceApi.RESPONSES,
    "embeddings": InferenceApi.EMBEDDINGS,
    "v1/messages": InferenceApi.MESSAGES,
    "generate": InferenceApi.GENERATE,
}
_LONGEST: Final = max(end.count("/") for end in _ENDS) + 1


@lru_cache(maxsize=256)
def find_api(path: str) -> InferenceApi:
    """The API; OTHER for an unknown path. The query is ignored."""
    segments = path.partition("?")[0].rstrip("/").split("/")
    for count in range(_LONGEST, 0, -1):
        found = _ENDS.get("/".join(segments[-count:]))
        if found is not None and len(segments) >= count:
            return found
    return InferenceApi.OTHER
