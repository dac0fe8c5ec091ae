"""What a control plane has read of the API server: one watch a kind, each late in its own way.

A watch delivers the changes of its kind in order. Between kinds there is no order. What may go wrong with a watch:

lag       its changes come later
drop      a change never comes, until the watch lists again
repeat    it goes back to an earlier version and comes again, as from an API server that is behind
reorder   changes of different objects change places
compact   the version it asks for is gone, and it lists again
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol

from modelplane.api.objects import Manifest, uid_of
from modelplane.testing.world.store import ApiStore, ObjectId, WorldChange, owner_of

Listener = Callable[[ObjectId, Manifest | None, Manifest | None, str], None]
"""Hears of an object: as it is, as it was, and who wrote it."""


class Facts(Protocol):
    """Objects as somebody knows them."""

    def get(self, key: ObjectId) -> Manifest | None: ...
    def all_of(self, kind: str) -> Iterable[Manifest]: ...


class View:
    def __init__(self, store: ApiStore, random: Random, hear: Listener) -> None:
        self._store, self._random, self._hear = store, random, hear
        self.by_kind: dict[str, dict[ObjectId, Manifest]] = {}
        self.owned: dict[str, dict[ObjectId, Manifest]] = {}
        self.uids: dict[str, ObjectId] = {}
        self.pending: dict[str, deque[WorldChange]] = {}
        self.drop_chance = 0.0
        self.missed: set[ObjectId] = set()
        """Objects of which a change was dropped."""
        self.lost: set[int] = set()
        """Versions that are never delivered."""

    def get(self, key: ObjectId) -> Manifest | None:
        return self.by_kind.get(key.kind, {}).get(key)

    def all_of(self, kind: str) -> list[Manifest]:
        return list(self.by_kind.get(kind, {}).values())

    def copy(self) -> Facts:
        """What it shows now, whatever is delivered later."""
        copied = View(self._store, self._random, lambda *_: None)
        copied.by_kind = {kind: dict(items) for kind, items in self.by_kind.items()}
        return copied

    @property
    def fresh(self) -> bool:
        """Whether it shows what the API server has."""
        return not self.missed and not any(self.pending.values())

    def push(self, change: WorldChange) -> None:
        self.pending.setdefault(change.id.kind, deque()).append(change)

    def deliver(self, kind: str) -> None:
        queue = self.pending.get(kind)
        if queue and queue[0].version <= self._store.floor:
            self.relist(kind)
            return
        while queue:
            change = queue.popleft()
            if change.version in self.lost or (self.drop_chance and self._random.random() < self.drop_chance):
                self.missed.add(change.id)
            else:
                self._apply(change.id, change.manifest, change.by)

    def relist(self, kind: str) -> None:
        """Read the kind anew. Every object is heard of again."""
        self.pending.pop(kind, None)
        self.missed = {key for key in self.missed if key.kind != kind}
        there = self._store.by_kind.get(kind, {})
        for key in [key for key in self.by_kind.get(kind, ()) if key not in there]:
            self._apply(key, None, "list")
        for key, item in list(there.items()):
            self._apply(key, item, "list")

    def travel(self, kind: str, back: int) -> None:
        """Go back by so many changes of the kind; they come again."""
        past = [change for change in self._store.log[-400:] if change.id.kind == kind][-back:]
        state = dict(self._store.by_kind.get(kind, {}))
        for change in reversed(past):
            if change.before is None:
                state.pop(change.id, None)
            else:
                state[change.id] = change.before
        self.missed = {key for key in self.missed if key.kind != kind}
        self.pending[kind] = deque(past)
        for key in [key for key in self.by_kind.get(kind, ()) if key not in state]:
            self._apply(key, None, "list")
        for key, item in state.items():
            self._apply(key, item, "list")

    def reorder(self, kind: str) -> bool:
        """Changes of different objects change places; those of one object keep their order."""
        queue = self.pending.get(kind)
        if not queue or len({change.id for change in queue}) < 2:  # noqa: PLR2004  it takes two to change places
            return False
        by_object: dict[ObjectId, deque[WorldChange]] = {}
        for change in queue:
            by_object.setdefault(change.id, deque()).append(change)
        slots = [change.id for change in queue]
        self._random.shuffle(slots)
        self.pending[kind] = deque(by_object[key].popleft() for key in slots)
        return True

    def _apply(self, key: ObjectId, item: Manifest | None, by: str) -> None:
        kind = self.by_kind.setdefault(key.kind, {})
        before = kind.pop(key, None)
        if before is not None:
            self.uids.pop(uid_of(before), None)
            self.owned.get(owner_of(before), {}).pop(key, None)
        if item is not None:
            kind[key] = item
            self.uids[uid_of(item)] = key
            if owner := owner_of(item):
                self.owned.setdefault(owner, {})[key] = item
        self._hear(key, item, before, by)
