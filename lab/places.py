"""Where the lab keeps what it builds and what it runs: never in the checkout."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CACHE_VARIABLE = "MODELPLANE_LAB_CACHE"
STATE_VARIABLE = "MODELPLANE_LAB_STATE"
_LONGEST_SOCKET = 100  # the kernel takes a few bytes more


@dataclass(frozen=True, slots=True)
class Places:
    """The binaries outlive a run and are keyed by version; the state is one run's and may be deleted at any time."""

    cache: Path
    state: Path

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def keys(self) -> Path:
        return self.state / "keys"

    @property
    def pid_file(self) -> Path:
        return self.state / "supervisor.json"

    @property
    def control_socket(self) -> Path:
        path = self.state / "control.sock"
        if len(bytes(path)) <= _LONGEST_SOCKET:
            return path
        digest = hashlib.sha256(bytes(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"modelplane-lab-{digest}.sock"


def find_places(environment: Mapping[str, str] = os.environ) -> Places:
    cache = environment.get(CACHE_VARIABLE) or _under(environment, "XDG_CACHE_HOME", ".cache")
    state = environment.get(STATE_VARIABLE) or _under(environment, "XDG_STATE_HOME", ".local/state")
    return Places(cache=Path(cache).absolute(), state=Path(state).absolute())


def _under(environment: Mapping[str, str], variable: str, fallback: str) -> str:
    base = environment.get(variable) or str(Path(environment.get("HOME", ".")) / fallback)
    return f"{base}/modelplane-lab"
