"""Writers that read an object, change it and write it back, in very many interleavings of their steps.

The suite tries a few hundred; MODELPLANE_INTERLEAVINGS=100000 tries that many.
"""

import os
import random

from modelplane.api.errors import ConflictError
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.store import ObjectRef
from modelplane.testing.clock import VirtualClock

INTERLEAVINGS = int(os.environ.get("MODELPLANE_INTERLEAVINGS", "500"))
CRATE = ObjectRef("", "ConfigMap", "team", "crate")


class Writer:
    """Adds marks to the spec or the status, each by a read and a write apart. After a conflict it reads again."""

    def __init__(self, store, part, marks):
        self._store = store
        self._part = part
        self._left = list(marks)
        self._read = None
        self.conflicts = 0

    @property
    def is_done(self):
        return not self._left

    def step(self):
        if self._read is None:
            self._read = self._store.get(CRATE)
            return
        seen, self._read = self._read, None
        marks = [*seen.get(self._part, {}).get("marks", ()), self._left[0]]
        changed = {**seen, self._part: {"marks": marks}}
        try:
            (self._store.replace if self._part == "spec" else self._store.replace_status)(changed)
        except ConflictError:
            self.conflicts += 1
        else:
            self._left.pop(0)


def interleave(chance, store):
    """The marks that were acknowledged by part, those that are there, and how many writes were refused."""
    wanted = {"spec": [], "status": []}
    conflicts, writers = 0, []
    for number in range(chance.randint(2, 4)):
        part = chance.choice(("spec", "status"))
        marks = [f"{number}.{mark}" for mark in range(chance.randint(1, 3))]
        wanted[part] += marks
        writers.append(Writer(store, part, marks))
    while writers:
        writer = chance.choice(writers)
        writer.step()
        if writer.is_done:
            writers.remove(writer)
            conflicts += writer.conflicts
    found = store.get(CRATE)
    there = {part: sorted(found.get(part, {}).get("marks", ())) for part in ("spec", "status")}
    return {part: sorted(wanted[part]) for part in there}, there, conflicts


def test_no_acknowledged_write_is_lost_in_any_interleaving():
    chance = random.Random(7)  # noqa: S311  a test's
    conflicts = 0
    with Database(None, clock=VirtualClock(), new_id=lambda: "uid") as database:
        store = database.store("plane")
        for number in range(INTERLEAVINGS):
            store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "crate", "namespace": "team"}})
            wanted, there, refused = interleave(chance, store)
            assert there == wanted, f"interleaving {number}"
            conflicts += refused
            store.delete(CRATE)
    assert conflicts > INTERLEAVINGS / 2
