"""The fleet routers of a running plane: where their side doors are, and what they answer."""

import json
from pathlib import Path

from modelplane.api.errors import NotFoundError, UnavailableError
from modelplane.cli.running import process_of

_TIMEOUT_S = 5.0


def router_urls(data: Path) -> list[str]:
    """The side doors of the routers of the plane that runs with a data folder, the default gateway's first."""
    if process_of(data) is None:
        return []
    try:
        found = json.loads((data / "routers.json").read_text())
    except (OSError, ValueError):
        return []
    return [str(url) for _, url in sorted(found.items())] if isinstance(found, dict) else []


def fetch(router: str, path: str) -> bytes:
    """NotFoundError with the router's own sentence; UnavailableError where it does not answer."""
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(f"{router}{path}", timeout=_TIMEOUT_S) as response:  # noqa: S310  the user's own address
            return bytes(response.read())
    except urllib.error.HTTPError as error:
        if error.code == 404:  # noqa: PLR2004  HTTP
            raise NotFoundError(str(json.load(error).get("error", ""))) from error
        raise UnavailableError(f"the router at {router} returned {error.code}") from error
    except urllib.error.URLError as error:
        raise UnavailableError(f"the router at {router} is unreachable: {error.reason}") from error
