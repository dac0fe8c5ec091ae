"""How long texts that were written to hurt hold the processor, each until its answer or its refusal.

The tables are those of the tests, which ask what the answer is; here it is only timed. The baseline is a plain manifest
or selector of the same run, so that a slow machine shows as one.
"""

import importlib.util
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from modelplane.api.errors import DocumentError
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.cel import CompileError, compile_selector
from modelplane.k8s.device import Device
from modelplane.k8s.quantity import is_quantity
from modelplane.k8s.semver import is_version

_TESTS = Path(__file__).resolve().parent.parent / "tests"
_LIMIT_MS = 100.0
_MANIFEST = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n"
_DEVICE = Device.from_dict("d", {"attributes": {"s": {"string": "a" * 64}}, "capacity": {"q": {"value": "4Gi"}}})


def rows() -> list[dict[str, object]]:
    """The slowest text of each table, by name."""
    return [
        _row("documents", _read, _table("k8s/admission/test_admission_hostile.py", "CORPUS"), _MANIFEST),
        _row("selectors", _select, _table("k8s/cel/test_cel_hostile.py", "HOSTILE"), "true"),
        _row("quantities", is_quantity, _table("k8s/test_k8s_quantity.py", "HOSTILE"), "4Gi"),
        _row("versions", is_version, _table("k8s/test_k8s_semver.py", "HOSTILE"), "1.2.3"),
    ]


def _table(path: str, name: str) -> Mapping[str, object]:
    spec = importlib.util.spec_from_file_location(Path(path).stem, _TESTS / path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"bench set hostile: tests/{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: Mapping[str, object] = getattr(module, name)
    return table


def _read(text: bytes) -> None:
    try:
        parse_documents(text, source="hostile.yaml")
    except DocumentError:
        return


def _select(text: str) -> None:
    try:
        compile_selector.__wrapped__(text, stored=True).evaluate(_DEVICE)
    except CompileError:
        return


def _row(name: str, work: Callable[..., object], table: Mapping[str, object], plain: object) -> dict[str, object]:
    spent = {title: _milliseconds(work, text) for title, text in table.items()}
    worst = max(spent, key=spent.__getitem__)
    return {
        "id": f"hostile_{name}",
        "value": round(spent[worst], 2),
        "unit": "ms",
        "limit": _LIMIT_MS,
        "ok": spent[worst] <= _LIMIT_MS,
        "baseline": {"plain": round(_milliseconds(work, plain), 3), "texts": len(table), "slowest": worst[:40]},
    }


def _milliseconds(work: Callable[..., object], text: object) -> float:
    """Processor time of the best of three."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        work(text)
        best = min(best, (time.process_time() - started) * 1_000)
    return best
