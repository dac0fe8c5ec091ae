"""One ModelDeployment of a plane: read, and changed by a merge patch."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from modelplane.api.errors import ConflictError, InputError, NotFoundError
from modelplane.api.names import is_dns_label
from modelplane.cli._formats import add_plane, plane_of
from modelplane.cli._objects import DEPLOYMENTS, PlaneObjects

if TYPE_CHECKING:
    from modelplane.cli.running import RunningPlane

_KINDS = frozenset({"md", "modeldeployment", "modeldeployments", "deployment", "modeldeployments.modelplane.ai"})
_ATTEMPTS = 5


def add_deployment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="md/NAME", nargs="+", help="the ModelDeployment: md/NAME, or md NAME")
    parser.add_argument("-n", "--namespace", default="default", help="its namespace (default)")
    add_plane(parser)


class NamedDeployment:
    """The deployment that a command line names."""

    def __init__(self, plane: "RunningPlane", namespace: str, name: str) -> None:
        self._plane = plane
        self.name = f"modeldeployment/{name}"
        self._namespace, self._bare_name = namespace, name

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "NamedDeployment":
        return cls(plane_of(arguments), arguments.namespace, name_of_words(arguments.words))

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
        path, manager = DEPLOYMENTS.path(self._namespace, self._bare_name), "?fieldManager=modelplane-rollout"
        try:
            with PlaneObjects(self._plane).suggesting(DEPLOYMENTS, self._namespace, self._bare_name):
                return self._plane.request(method, f"{path}{manager if body is not None else ''}", body)
        except (InputError, NotFoundError, ConflictError) as error:
            raise type(error)(f"{self.name}: {error}") from error


def name_of_words(words: list[str]) -> str:
    """The name in `md/NAME`, `md NAME` or `NAME`."""
    parts = words[0].split("/") if len(words) == 1 else words
    kind, name = (parts[0], parts[1]) if len(parts) == 2 else ("md", parts[0])  # noqa: PLR2004  a kind and a name
    if len(parts) > 2 or kind.lower() not in _KINDS or not is_dns_label(name):  # noqa: PLR2004  as above
        raise InputError(f"{' '.join(words)!r} is not md/NAME")
    return name
