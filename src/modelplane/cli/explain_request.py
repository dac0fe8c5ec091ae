"""`modelplane explain request ID`: why the fleet router sent a request where it did."""

import argparse
import json
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

import msgspec

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.cli._shown import print_table, print_value
from modelplane.cli.ports import Ports
from modelplane.cli.running import chosen_data, default_data, process_of
from modelplane.views.request_decisions import AttemptShown, RequestShown, details, ending, headline, rows

_TIMEOUT_S = 5.0


def explain_request(arguments: argparse.Namespace, identity: str) -> int:
    """Prints why; NotFoundError where the router does not know the request."""
    found = fetch_request(router_of(arguments), identity)
    if arguments.output != "table":
        print_value(found, arguments.output)
        return 0
    print(headline(found))
    print(details(found))
    for attempt in found.attempts:
        _show(attempt, several=len(found.attempts) > 1)
    return 0


def router_of(arguments: argparse.Namespace) -> str:
    """The address of the router's side door: the given one, or that of the running plane."""
    if arguments.router:
        return str(arguments.router).rstrip("/")
    data = Path(arguments.data) if arguments.data else chosen_data() or default_data()
    port = Ports.of(data).known.get("router", 0) if process_of(data) is not None else 0
    if not port:
        raise NotFoundError(
            f"no fleet router runs with the data folder {data}; `modelplane up --router` starts one, "
            "and --router URL names another"
        )
    return f"http://127.0.0.1:{port}"


def fetch_request(router: str, identity: str) -> RequestShown:
    url = f"{router}/requests/{quote(identity, safe='')}"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310  the user's own address
            return msgspec.json.decode(response.read(), type=RequestShown)
    except urllib.error.HTTPError as error:
        if error.code == 404:  # noqa: PLR2004  HTTP
            why = str(json.load(error).get("error", ""))
            raise NotFoundError(f"request {identity}: {why}") from error
        raise UnavailableError(f"the router at {router} returned {error.code}") from error
    except urllib.error.URLError as error:
        raise UnavailableError(f"the router at {router} is unreachable: {error.reason}") from error


def _show(attempt: AttemptShown, *, several: bool) -> None:
    print()
    if several:
        where = f" to {attempt.endpoint}" if attempt.endpoint else ""
        print(f"attempt {attempt.number}: {attempt.outcome}{where}, {ending(attempt)}")
    if attempt.candidates:
        print_table(("VERDICT", "ENDPOINT", "SCORE", "WHY"), rows(attempt))
