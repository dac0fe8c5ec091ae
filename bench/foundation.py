"""Start-up of the program, and reading objects at fleet size."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import yaml

from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "quickstart" / "3-model.yaml"
PROGRAM = Path(sys.executable).with_name("modelplane")


def rows() -> list[dict[str, object]]:
    return [_help(), _decode(), _demo()]


def _help() -> dict[str, object]:
    """Interleaved with an interpreter that does nothing, which no program can beat."""
    helped, bare = [], []
    for _ in range(9):
        helped.append(_wall_ms([str(PROGRAM), "--help"]))
        bare.append(_wall_ms([sys.executable, "-c", "pass"]))
    value = median(helped)
    baseline = {"what": "python -c pass", "value": round(median(bare), 1), "unit": "ms"}
    return _row("cli-help", round(value, 1), "ms", 150, baseline)


def _decode() -> dict[str, object]:
    manifest = next(iter(yaml.safe_load_all(EXAMPLE.read_text())))
    data = json.dumps(manifest).encode()
    typed = _per_call_us(lambda: decode(ModelDeployment, manifest))
    plain = _per_call_us(lambda: json.loads(data))
    baseline = {"what": "json.loads of the same object", "value": round(plain, 1), "unit": "µs"}
    return _row("decode-model-deployment", round(typed, 1), "µs", 100, baseline)


def _demo() -> dict[str, object]:
    """Beside the part of it that no plane can avoid: importing the client and what the plane is made of."""
    value = _wall_ms([str(PROGRAM), "demo"]) / 1000
    imports = _wall_ms([sys.executable, "-c", "import openai, modelplane.plane.plane"]) / 1000
    baseline = {"what": "importing the openai client and the plane", "value": round(imports, 2), "unit": "s"}
    return _row("demo-warm", round(value, 2), "s", 10, baseline)


def _row(name: str, value: float, unit: str, limit: float, baseline: Mapping[str, object]) -> dict[str, object]:
    return {"id": name, "value": value, "unit": unit, "limit": limit, "ok": value <= limit, "baseline": baseline}


def _wall_ms(command: list[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True)  # noqa: S603  our own program
    return (time.perf_counter() - started) * 1000 if done.returncode == 0 else float("inf")


def _per_call_us(call: Callable[[], object], times: int = 5000) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times * 1e6
