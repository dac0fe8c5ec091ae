"""kill -9 under load: whatever was acknowledged is there, and a batch is there whole or not at all.

Run as a program, this file is the writer: it acknowledges each write on its standard output and never stops by itself.
The suite kills a few; MODELPLANE_KILLS=100 (any number) kills that many.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

from modelplane.apiserver.store.database import Database
from modelplane.reconcile.clock import SystemClock
from modelplane.reconcile.store import ObjectRef

KILLS = int(os.environ.get("MODELPLANE_KILLS", "3"))
BATCH = 5


def thing(name, round_number):
    return {
        "apiVersion": "modelplane.ai/v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"round": round_number, "text": "x" * 1500},
    }


def write_for_ever(path: Path) -> None:
    database = Database(path, clock=SystemClock())
    single, grouped = database.store("single"), database.store("grouped")
    number = single.revision
    while True:
        number += 1
        acknowledged = single.create(thing(f"thing-{number}", number))["metadata"]["resourceVersion"]
        print("single", acknowledged, flush=True)  # noqa: T201  the acknowledgement
        with database.batch():
            for member in range(BATCH):
                put(grouped, thing(f"member-{member}", number))
        print("grouped", number, flush=True)  # noqa: T201  the acknowledgement


def put(store, manifest) -> None:
    ref = ObjectRef("modelplane.ai", "Thing", "a", manifest["metadata"]["name"])
    (store.create if store.get(ref) is None else store.replace)(manifest)


def kill_after(path: Path, lines: int) -> dict[str, int]:
    """Start a writer, kill it after so many acknowledgements, and return the newest of each kind."""
    newest: dict[str, int] = {}
    with subprocess.Popen([sys.executable, __file__, path], stdout=subprocess.PIPE, text=True) as writer:
        for count, line in enumerate(writer.stdout, start=1):
            if not line.endswith("\n"):
                break  # cut off by the kill: it acknowledged nothing
            store, number = line.split()
            newest[store] = int(number)
            if count == lines:
                writer.kill()
    assert writer.returncode == -9
    return newest


def check(path: Path, newest: dict[str, int]) -> None:
    with Database(path, clock=SystemClock()) as database:
        single, grouped = database.store("single"), database.store("grouped")
        assert single.revision >= newest["single"]
        assert len(single) == single.revision
        rounds = [each["spec"]["round"] for each in grouped.list("modelplane.ai", "Thing")]
        assert len(rounds) == BATCH
        assert len(set(rounds)) == 1
        assert rounds[0] >= newest.get("grouped", 0)


def test_nothing_acknowledged_is_lost(tmp_path):
    source = random.Random(KILLS)  # noqa: S311  reproducible, not secret
    for _ in range(KILLS):
        path = tmp_path / "plane.db"
        check(path, kill_after(path, source.randrange(2, 400)))


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]))
