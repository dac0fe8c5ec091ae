"""Where the lab keeps what it builds and what it runs: never in the checkout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CACHE_VARIABLE = "MODELPLANE_LAB_CACHE"
STATE_VARIABLE = "MODELPLANE_LAB_STATE"


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
        return self.state / "control.sock"


def find_places(environment: Mapping[str, str] = os.environ) -> Places:
    cache = environment.get(CACHE_VARIABLE) or _under(environment, "XDG_CACHE_HOME", ".cache")
    state = environment.get(STATE_VARIABLE) or _under(environment, "XDG_STATE_HOME", ".local/state")
    return Places(cache=Path(cache).absolute(), state=Path(state).absolute())


def _under(environment: Mapping[str, str], variable: str, fallback: str) -> str:
    base = environment.get(variable) or str(Path(environment.get("HOME", ".")) / fallback)
    return f"{base}/modelplane-lab"
