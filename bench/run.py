"""Measures, and writes bench/results.json: one row a figure.

Every module of this folder that has a function `rows` is a set of figures. A row has `id`, `value`, `unit`, `limit`
(what the value must not exceed, or fall below where `better` is "higher"), `ok`, and `baseline`: something else that
was measured beside it in the same run, because absolute times on a shared machine mean little.

    python bench/run.py [SET…]     run all sets, or those named; --print writes no file
"""

import argparse
import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
REQUIRED = {"id", "value", "unit", "limit", "ok", "baseline"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", choices=[*_sets(), []], help=", ".join(_sets()))
    parser.add_argument("--print", action="store_true", dest="only_print", help="write no file")
    options = parser.parse_args()
    chosen = options.sets or _sets()
    sys.path[:0] = [str(HERE), str(HERE.parent)]  # the sets, and what they share with the tests
    rows = [row for name in chosen for row in _measure(name)]
    if not options.only_print:
        _write(rows, chosen)
    return 0 if all(row["ok"] for row in rows) else 1


def _write(rows: list[dict[str, object]], chosen: list[str]) -> None:
    kept = [row for row in _previous() if row["set"] not in chosen]
    document = {"machine": _machine(), "rows": sorted(kept + rows, key=lambda row: (str(row["set"]), str(row["id"])))}
    RESULTS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _sets() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem != "run" and "def rows(" in path.read_text())


def _measure(name: str) -> list[dict[str, object]]:
    started = time.perf_counter()
    found: list[dict[str, object]] = importlib.import_module(name).rows()
    for row in found:
        missing = REQUIRED - row.keys()
        if missing:
            raise SystemExit(f"bench set {name}, row {row.get('id')}: lacks {', '.join(sorted(missing))}")
        print(f"{'ok  ' if row['ok'] else 'OVER'} {row['id']}: {row['value']} {row['unit']} (limit {row['limit']})")
    print(f"     {name}: {len(found)} figures in {time.perf_counter() - started:.1f} s")
    return [{"set": name, **row} for row in found]


def _previous() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    return rows


def _machine() -> dict[str, object]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}


if __name__ == "__main__":
    sys.exit(main())
