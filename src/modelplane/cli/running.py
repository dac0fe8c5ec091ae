"""A running plane: its data folder, its process and its API."""

import argparse
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from modelplane.api.errors import ConflictError, InputError, ModelplaneError, NotFoundError, UnavailableError
from modelplane.api.objects import name_of
from modelplane.cli._near import near_name, suggesting

if TYPE_CHECKING:
    import ssl
    import urllib.error

_TIMEOUT_S = 10.0
_API = "/apis/modelplane.ai/v1alpha1"
_REQUEST_FAULTS = {400: InputError, 403: InputError, 404: NotFoundError, 409: ConflictError, 422: InputError}
MERGE_PATCH: Final = "application/merge-patch+json"


ENVIRONMENT = "MODELPLANE_DATA"
DATA_HELP = f"the data folder (default: ${ENVIRONMENT}, else that of $KUBECONFIG, else ~/.local/state/modelplane)"


def add_data_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--data", type=Path, default=chosen_data() or default_data(), metavar="DIR", help=DATA_HELP)


def chosen_data() -> Path | None:
    """The data folder that the environment names: by MODELPLANE_DATA, or by a plane's own kubeconfig."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    return next((file.parent for file in _kubeconfigs() if is_of_a_plane(file)), None)


def foreign_kubeconfig() -> Path | None:
    """The first file of $KUBECONFIG that exists and is not that of a plane."""
    return next((file for file in _kubeconfigs() if file.is_file() and not is_of_a_plane(file)), None)


def _kubeconfigs() -> list[Path]:
    return [Path(file) for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file]


def is_of_a_plane(file: Path) -> bool:
    return file.name == "kubeconfig" and (file.parent / "plane.db").is_file()


def default_data() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "modelplane"


def process_of(data: Path) -> int | None:
    """The process of the plane that runs with a data folder; None when none runs."""
    lock = data / "lock"
    if not lock.exists():
        return None
    with lock.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            text = handle.read().strip()
            return int(text) if text.isdigit() else None
    return None


def no_plane(data: Path) -> str:
    """That none runs with a data folder, and, where nobody chose the folder, how another is named."""
    sentence = f"no plane runs with the data folder {data}"
    if data != default_data():
        return sentence
    elsewhere = foreign_kubeconfig()
    if elsewhere is not None:
        return f"{sentence}; --kubeconfig {elsewhere} reads the control plane of that file"
    return f"{sentence}; --data DIR or ${ENVIRONMENT} names another"


@dataclass(frozen=True, slots=True)
class RunningPlane:
    """The API of a running plane, by its own kubeconfig."""

    server: str
    token: str = field(repr=False)
    """Empty where a client certificate authenticates."""
    context: "ssl.SSLContext"

    @classmethod
    def of(cls, data: Path) -> "RunningPlane":
        if process_of(data) is None:
            raise NotFoundError(f"{no_plane(data)}; `modelplane up --data {data}` starts one")
        import base64
        import ssl

        config = json.loads((data / "kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], user["token"], ssl.create_default_context(cadata=trusted))

    def items(self, plural: str) -> tuple[Mapping[str, object], ...]:
        """All objects of one of Modelplane's kinds."""
        found = self.request("GET", f"{_API}/{plural}")["items"]
        return tuple(found) if isinstance(found, list) else ()

    def get(self, plural: str, name: str) -> dict[str, object]:
        """One object of a kind that has no namespace."""
        with suggesting(lambda: near_name(name, [name_of(item) for item in self.items(plural)])):
            return self.request("GET", f"{_API}/{plural}/{name}")

    def patch(self, plural: str, name: str, patch: Mapping[str, object]) -> dict[str, object]:
        """The object after a JSON merge patch."""
        return self.request("PATCH", f"{_API}/{plural}/{name}", patch)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        sent: str = MERGE_PATCH,
        accepted: str = "application/json",
    ) -> dict[str, object]:
        """What the API answers. `sent` is the type of the body; a fault of the request is an InputError or so."""
        headers = {"Accept": accepted}
        data = None
        if body is not None:
            headers["Content-Type"] = sent
            data = json.dumps(body).encode()
        with self._open(path, method=method, data=data, headers=headers) as answer:
            found: dict[str, object] = json.load(answer)
            return found

    def lines(self, path: str, *, timeout_s: float | None = _TIMEOUT_S) -> Iterator[str]:
        """A text as it comes, line by line. None: it may take its time."""
        with self._open(path, headers={"Accept": "*/*"}, timeout_s=timeout_s) as answer:
            for line in answer:
                yield line.decode(errors="replace").rstrip("\n")

    @contextmanager
    def _open(
        self,
        path: str,
        *,
        headers: Mapping[str, str],
        method: str = "GET",
        data: bytes | None = None,
        timeout_s: float | None = _TIMEOUT_S,
    ) -> Iterator[IO[bytes]]:
        import urllib.error
        import urllib.request

        known = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        made = urllib.request.Request(  # noqa: S310  our own https address
            f"{self.server}{path}", data=data, headers={**headers, **known}, method=method
        )
        try:
            with urllib.request.urlopen(made, timeout=timeout_s, context=self.context) as answer:  # noqa: S310  as above
                yield answer
        except urllib.error.HTTPError as error:
            raise self._refused(path, error) from error
        except urllib.error.URLError as error:
            raise UnavailableError(f"the plane at {self.server} is unreachable: {error.reason}") from error

    def _refused(self, path: str, error: "urllib.error.HTTPError") -> ModelplaneError:
        """What the API says is wrong with the request, or that it does not answer as it should."""
        if error.code in _REQUEST_FAULTS:
            with suppress(ValueError, AttributeError):
                return _REQUEST_FAULTS[error.code](str(json.load(error).get("message", "")) or str(error))
        return UnavailableError(f"the plane at {self.server} returned {error.code} {error.reason} for {path}")
