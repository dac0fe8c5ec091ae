"""One ModelDeployment of a plane: read, and changed by a merge patch."""

import argparse
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from modelplane.api.errors import ConflictError, InputError, ModelplaneError, NotFoundError, UnavailableError
from modelplane.api.names import is_dns_label
from modelplane.api.objects import API_VERSION
from modelplane.cli.running import add_data_argument

if TYPE_CHECKING:
    from modelplane.cli.running import RunningPlane

_KINDS = frozenset({"md", "modeldeployment", "modeldeployments", "deployment", "modeldeployments.modelplane.ai"})
_TIMEOUT_S = 10.0
_ATTEMPTS = 5
_NOT_FOUND, _CONFLICT = 404, 409


def add_deployment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="md/NAME", nargs="+", help="the ModelDeployment: md/NAME, or md NAME")
    parser.add_argument("-n", "--namespace", default="default", help="its namespace (default)")
    add_data_argument(parser)
    parser.add_argument(
        "--kubeconfig", type=Path, default=None, metavar="FILE", help="the control plane of a kubeconfig instead"
    )


class NamedDeployment:
    """The deployment that a command line names."""

    def __init__(self, plane: "RunningPlane", namespace: str, name: str) -> None:
        self._plane = plane
        self.name = f"modeldeployment/{name}"
        self._path = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/modeldeployments/{name}"

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "NamedDeployment":
        return cls(_plane(arguments), arguments.namespace, name_of_words(arguments.words))

    def get(self) -> Mapping[str, object]:
        return self._call("GET")

    def change(self, make: Callable[[Mapping[str, object]], Mapping[str, object] | None]) -> None:
        """Apply the patch that `make` makes of the object; made anew when the object changed in between."""
        for attempt in range(_ATTEMPTS):
            patch = make(self.get())
            if patch is None:
                return
            try:
                self._call("PATCH", patch)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def _call(self, method: str, body: Mapping[str, object] | None = None) -> Mapping[str, object]:
        headers = {"Accept": "application/json"}
        if self._plane.token:
            headers["Authorization"] = f"Bearer {self._plane.token}"
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        url = f"{self._plane.server}{self._path}{'?fieldManager=modelplane-rollout' if body is not None else ''}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310  an https address
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._plane.context) as answer:  # noqa: S310  as above
                found: Mapping[str, object] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from error
        except urllib.error.URLError as error:
            raise UnavailableError(f"the plane at {self._plane.server} is unreachable: {error.reason}") from error

    def _refusal(self, error: urllib.error.HTTPError) -> ModelplaneError:
        try:
            message = str(json.load(error)["message"])
        except (ValueError, KeyError, TypeError):
            message = f"{error.code} {error.reason}"
        kinds: dict[int, type[ModelplaneError]] = {_NOT_FOUND: NotFoundError, _CONFLICT: ConflictError}
        return kinds.get(error.code, InputError)(f"{self.name}: {message}")


def name_of_words(words: list[str]) -> str:
    """The name in `md/NAME`, `md NAME` or `NAME`."""
    parts = words[0].split("/") if len(words) == 1 else words
    kind, name = (parts[0], parts[1]) if len(parts) == 2 else ("md", parts[0])  # noqa: PLR2004  a kind and a name
    if len(parts) > 2 or kind.lower() not in _KINDS or not is_dns_label(name):  # noqa: PLR2004  as above
        raise InputError(f"{' '.join(words)!r} is not md/NAME")
    return name


def _plane(arguments: argparse.Namespace) -> "RunningPlane":
    from modelplane.cli.running import RunningPlane

    if arguments.kubeconfig is not None:
        from modelplane.cli.kubeconfig import read_kubeconfig

        return read_kubeconfig(arguments.kubeconfig)
    return RunningPlane.of(arguments.data)
