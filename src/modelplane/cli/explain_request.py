"""`modelplane explain request ID`: why the fleet router sent a request where it did."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from modelplane.api.errors import NotFoundError
from modelplane.cli._routers import fetch, router_urls
from modelplane.cli._shown import print_table, print_value
from modelplane.cli.running import chosen_data, default_data
from modelplane.views.request_decisions import AttemptShown, RequestShown, details, ending, headline, rows


def explain_request(arguments: argparse.Namespace, identity: str) -> int:
    """Prints why; NotFoundError where the router does not know the request."""
    found = fetch_request(routers_of(arguments), identity)
    if arguments.output != "text":
        print_value(found, arguments.output)
        return 0
    print(headline(found))
    print(details(found))
    for attempt in found.attempts:
        _show(attempt, several=len(found.attempts) > 1)
    return 0


def routers_of(arguments: argparse.Namespace) -> list[str]:
    """The addresses of the routers' side doors: the given one, or those of the running plane."""
    if arguments.router:
        return [str(arguments.router).rstrip("/")]
    data = Path(arguments.data) if arguments.data else chosen_data() or default_data()
    found = router_urls(data)
    if not found:
        raise NotFoundError(
            f"no fleet router runs with the data folder {data}; `modelplane up --router` starts one, spec.router of an "
            "InferenceGateway does, and --router URL names another"
        )
    return found


def fetch_request(routers: Sequence[str], identity: str) -> RequestShown:
    """From the router that knows it."""
    why = ""
    for router in routers:
        try:
            body = fetch(router, f"/requests/{quote(identity, safe='')}")
        except NotFoundError as error:
            why = str(error)
            continue
        return msgspec.json.decode(body, type=RequestShown)
    raise NotFoundError(f"request {identity}: {why}")


def _show(attempt: AttemptShown, *, several: bool) -> None:
    print()
    if several:
        where = f" to {attempt.endpoint}" if attempt.endpoint else ""
        print(f"attempt {attempt.number}: {attempt.outcome}{where}, {ending(attempt)}")
    if attempt.candidates:
        print_table(("VERDICT", "ENDPOINT", "SCORE", "WHY"), rows(attempt))
