"""Which models a provider has, by its own list: `status.models` of its ModelEndpoint.

A host fetches the list in the background (`ComposeRequest.list_models`), with the credential that requests get. A list
that cannot be fetched leaves the one before: a provider that is down has not lost its models.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from modelplane.api.models import ListedModels, ModelEndpoint

_MOST_NAMES: Final = 256
_LONGEST_NAME: Final = 253
_FETCHING_S: Final = 1.0
_RECHECK_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What is fetched for one endpoint. A change of any of it is a reason to fetch again."""

    url: str
    allow: tuple[str, ...] = ()
    """What the outbound rule allows beside public hosts."""
    header: str = ""
    value: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class FetchedList:
    names: tuple[str, ...] | None = None
    """None: the list could not be fetched."""
    unreached: str = ""
    """Why there was no connection at the last try; empty: there was one."""


ListModels = Callable[[ListRequest], FetchedList | None]
"""None while the first fetch is under way. A caller never waits."""


class ModelsFact(NamedTuple):
    models: ListedModels | None
    requeue_after_s: float | None = None
    unreached: str = ""
    """Why the control plane has no connection to the provider."""


def models_fact(endpoint: ModelEndpoint, wanted: ListRequest, list_models: ListModels | None) -> ModelsFact:
    """What the status says of a provider's models, and when to compose again."""
    before = endpoint.status.models
    kept = before if before is not None and before.url == wanted.url else None
    if list_models is None:
        return ModelsFact(kept)
    found = list_models(wanted)
    if found is None:
        return ModelsFact(kept, _FETCHING_S)
    if found.names is None:
        return ModelsFact(kept, _RECHECK_S, found.unreached)
    return ModelsFact(listed_models(found.names, wanted.url, endpoint.spec.model), _RECHECK_S, found.unreached)


def listed_models(names: Iterable[str], url: str, model: str | None) -> ListedModels:
    """The wanted model first where it is listed, then the others in order. Names that cannot be kept are left out."""
    found = {name for name in names if 0 < len(name) <= _LONGEST_NAME}
    first = [model] if model is not None and model in found else []
    kept = [*first, *sorted(found - {*first})][:_MOST_NAMES]
    return ListedModels(url=url, total=len(found), names=tuple(kept))
