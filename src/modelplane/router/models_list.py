"""`GET /v1/models`: the model names that a caller may use."""

from datetime import datetime
from typing import Final

import msgspec

from modelplane.compose.caller_document import Caller
from modelplane.router.catalog import RoutedService, ServiceCatalog

_OWNER: Final = "modelplane"


def models_list(catalog: ServiceCatalog, caller: Caller, service: str = "") -> bytes:
    """In a form that OpenAI's and Anthropic's clients both read; of one service where it is given."""
    found = [
        _model(name, each) for name, each in catalog.names() if caller.may_call(each.key) and service in {"", each.key}
    ]
    first, last = (found[0]["id"], found[-1]["id"]) if found else (None, None)
    return msgspec.json.encode({"object": "list", "data": found, "has_more": False, "first_id": first, "last_id": last})


def _model(name: str, service: RoutedService) -> dict[str, object]:
    created = service.plan.created
    return {
        "id": name,
        "object": "model",
        "created": _seconds(created),
        "owned_by": _OWNER,
        "type": "model",
        "display_name": name,
        "created_at": created or "1970-01-01T00:00:00Z",
    }


def _seconds(created: str) -> int:
    try:
        return int(datetime.fromisoformat(created).timestamp())
    except ValueError:
        return 0
