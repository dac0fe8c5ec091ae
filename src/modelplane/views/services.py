"""One service for people: its ways in, its tiers with their shares, and why endpoints are left out."""

from collections.abc import Iterator, Mapping, Sequence

from modelplane.api.objects import Manifest, items_at, text_at, value_at

_COLUMNS = ("TIER", "SHARE", "ENDPOINT", "GROUP", "CLUSTER", "WHY NOT")


def service_lines(service: Manifest) -> list[str]:
    """The service as lines of text."""
    rows = [_COLUMNS, *_rows(service)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    table = [_line(row, widths) for row in rows]
    return [*_head(service), "", *table] if len(rows) > 1 else [*_head(service), "", "no endpoints match"]


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


def _rows(service: Manifest) -> Iterator[tuple[str, ...]]:
    for tier in items_at(service, "status", "tiers"):
        share = tier.get("sharePercent")
        part = share if isinstance(share, int) else 0
        for endpoint in items_at(tier, "endpoints"):
            yield _row(str(tier.get("priority", "")), part, endpoint)


def _row(tier: str, percent: int, endpoint: Manifest) -> tuple[str, ...]:
    permille = endpoint.get("sharePermille")
    share = percent * permille / 1000 if isinstance(permille, int) else 0.0
    reason, message = text_at(endpoint, "reason"), text_at(endpoint, "message")
    why = f"{reason}: {message}" if reason and message else reason
    names = (text_at(endpoint, field) for field in ("name", "group", "cluster"))
    return (tier, f"{share:.1f}%", *names, why)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
