"""One service for people: its ways in, its tiers with their shares, and why endpoints are left out."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from modelplane.api.objects import Manifest, items_at, name_of, namespace_of, text_at, value_at

_COLUMNS = ("TIER", "SHARE", "ENDPOINT", "GROUP", "CLUSTER")
_OF_ROUTER = ("HEALTH", "IN FLIGHT")
_WHY = "WHY NOT"


class EndpointShown(msgspec.Struct, frozen=True, rename="camel"):
    """An endpoint as a fleet router sees it."""

    endpoint: str
    services: tuple[str, ...]
    health: str
    why: str
    in_flight: int
    ready: bool


def service_lines(service: Manifest, seen: Mapping[str, EndpointShown] | None = None) -> list[str]:
    """The service as lines of text. `seen` has what a fleet router knows of its endpoints, by name; None: no router."""
    columns = (*_COLUMNS, *(() if seen is None else _OF_ROUTER), _WHY)
    rows = [columns, *_rows(service, seen)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    table = [_line(row, widths) for row in rows]
    return [*_head(service), "", *(table if len(rows) > 1 else [_nothing(service)])]


def _nothing(service: Manifest) -> str:
    where = "" if namespace_of(service) == "default" else f" -n {namespace_of(service)}"
    trace = f"`modelplane trace ms/{name_of(service)}{where}`"
    return f"no endpoints match; {trace} shows the deployments that it would select"


def why_left_out(reason: str, message: str) -> str:
    """Why an endpoint of a tier gets no requests; empty where it gets some."""
    return f"{reason}: {message}" if reason and message else reason


def endpoint_share(tier_percent: int, permille: int) -> float:
    """The percentage of all requests that an endpoint gets, of its tier's percentage and its part of that."""
    return tier_percent * permille / 1000


def chosen_model(listed: Sequence[str], service_model: str) -> str:
    """The service's own name where it is listed, as a fleet router does; else the engine's."""
    return service_model if service_model in listed or not listed else listed[0]


def _head(service: Manifest) -> Iterator[str]:
    routes = value_at(service, "status", "routes")
    counts = routes if isinstance(routes, Mapping) else {}
    yield f"model     {text_at(service, 'status', 'model') or '-'}"
    yield f"address   {text_at(service, 'status', 'address') or '-'}"
    yield f"gateways  {counts.get('ready', 0)} of {counts.get('total', 0)} serve it"
    for condition in items_at(service, "status", "conditions"):
        if condition.get("type") == "Ready":
            message = f": {condition['message']}" if condition.get("message") else ""
            yield f"ready     {condition.get('status')}, {condition.get('reason')}{message}"


def _rows(service: Manifest, seen: Mapping[str, EndpointShown] | None) -> Iterator[tuple[str, ...]]:
    for tier in items_at(service, "status", "tiers"):
        share = tier.get("sharePercent")
        part = share if isinstance(share, int) else 0
        for endpoint in items_at(tier, "endpoints"):
            yield _row(str(tier.get("priority", "")), part, endpoint, seen)


def _row(tier: str, percent: int, endpoint: Manifest, seen: Mapping[str, EndpointShown] | None) -> tuple[str, ...]:
    permille = endpoint.get("sharePermille")
    share = endpoint_share(percent, permille if isinstance(permille, int) else 0)
    why = why_left_out(text_at(endpoint, "reason"), text_at(endpoint, "message"))
    names = (text_at(endpoint, field) for field in ("name", "group", "cluster"))
    row = (tier, f"{share:.1f}%", *names)
    if seen is None:
        return (*row, why)
    known = seen.get(text_at(endpoint, "name"))
    return (*row, *((known.health, str(known.in_flight), why or known.why) if known else ("-", "-", why)))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
