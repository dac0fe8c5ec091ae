"""The GPUs of this machine, as NVIDIA's driver lists them."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

_FIELDS = ("index", "uuid", "name", "memory.total", "compute_cap", "driver_version")
_TIMEOUT_S = 20.0
_ARCHITECTURES = {7: "Volta", 8: "Ampere", 9: "Hopper", 10: "Blackwell", 12: "Blackwell"}
_BY_CAPABILITY = {"7.5": "Turing", "8.9": "Ada Lovelace"}


@dataclass(frozen=True, slots=True)
class LocalGpu:
    index: int
    uuid: str
    product: str
    memory_mib: int
    capability: str
    """As 9.0."""
    driver: str

    @property
    def architecture(self) -> str:
        major = self.capability.partition(".")[0]
        return _BY_CAPABILITY.get(self.capability) or _ARCHITECTURES.get(int(major) if major.isdigit() else 0, "")


def find_gpus(list_them: Callable[[], str] | None = None) -> tuple[LocalGpu, ...]:
    """None where the driver is not installed or does not answer."""
    return tuple(_gpu(line) for line in (list_them or _list)().splitlines() if line.count(",") == len(_FIELDS) - 1)


def _list() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    query = [program, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)  # noqa: S603  its own words
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _gpu(line: str) -> LocalGpu:
    index, uuid, name, memory, capability, driver = (word.strip() for word in line.split(","))
    return LocalGpu(int(index), uuid, name, int(memory), capability, driver)
