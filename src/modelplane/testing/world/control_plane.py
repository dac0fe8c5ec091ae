"""A control plane of a world: Crossplane with our function, reading a view that may be late.

A pass does what Crossplane does. It reads the composite, what it composed and what it requires from the view, calls the
function (`crossplane.calls.answer`), deletes what is no longer desired, applies the rest and writes the status. Writes
can fail or be the last before a crash, so a pass can end between any two of them. A composite is called again when it,
an object that it composed or one that it requires changes, and when its ttl is over.

`live` planes keep the fleet (`reconcile.live_fleet`) and assume what they placed; the others require it with each call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Protocol

from modelplane.api.codec import encode
from modelplane.api.errors import InputError
from modelplane.api.labels import CLUSTER
from modelplane.api.objects import (
    Manifest,
    is_deleting,
    labels_of,
    metadata_of,
    text_at,
    uid_of,
    value_at,
)
from modelplane.api.timestamps import timestamp
from modelplane.compose.contract import Requirement
from modelplane.crossplane.caches import FunctionCaches
from modelplane.crossplane.calls import CannotCompose, FunctionCall, FunctionResult, answer
from modelplane.testing.world.clockwork import Clockwork
from modelplane.testing.world.live_cache import FLEET, LiveFleetCache, found_in, is_required
from modelplane.testing.world.store import (
    KEY,
    OWNER,
    ApiStore,
    ConflictFault,
    ObjectId,
    ReplyLost,
    differs,
    id_of,
    owner_of,
)
from modelplane.testing.world.views import Facts, View

COMPOSITES = frozenset({"InferenceCluster", "ModelCache", "ModelDeployment", "ModelReplica", "ModelEndpoint"})
_PAUSE_S = 2.0
"""A composite is called at most this often, as a rate limiter would see to."""
_RETRY_S = 2.0
_LAG_S = 0.1
_ROUNDS = 5


class ControlPlaneCrash(Exception):  # noqa: N818  the process ends; it is no error of the world
    """The process ends between two writes."""


@dataclass(frozen=True, slots=True)
class WorldPass:
    """One pass, as checkers see it."""

    plane: "ControlPlane"
    id: ObjectId
    composite: Manifest
    observed: Mapping[str, Manifest]
    result: FunctionResult
    fresh: bool
    """Whether all that was read is what the API server had, and nothing was written since."""
    removed: tuple[ObjectId, ...]
    facts: Facts
    """What the plane knew when it decided."""

    @property
    def author(self) -> str:
        return f"{self.plane.name}:{self.id}"


class Watcher(Protocol):
    """Hears of what planes do: the checkers."""

    def on_delete(self, done: WorldPass, key: ObjectId) -> None: ...
    def on_apply(self, done: WorldPass, item: Manifest) -> None: ...
    def on_status(self, done: WorldPass, status: Mapping[str, object]) -> None: ...


@dataclass(slots=True)
class PlaneTrouble:
    """What goes wrong with a control plane, until it is set right."""

    conflict: float = 0.0
    lost_reply: float = 0.0
    crash: float = 0.0
    shorten: float = 0.0
    slow_s: float = 0.0
    lag_s: dict[str, float] = field(default_factory=dict)


class ControlPlane:
    def __init__(
        self, name: str, store: ApiStore, clock: Clockwork, random: Random, watcher: Watcher, *, live: bool
    ) -> None:
        self.name, self.live = name, live
        self._store, self._clock, self._random, self._watcher = store, clock, random, watcher
        self.trouble = PlaneTrouble()
        self.paused = False
        self.passes: dict[ObjectId, int] = {}
        self.most_queued = 0
        self.probes: dict[str, int] = {}
        self.before_write: Callable[[], None] = _nothing
        self._epoch = 0
        self._due_kinds: set[str] = set()
        self._start()
        store.listeners.append(lambda change: self._notice(change.id.kind, lambda: self.view.push(change)))

    def _start(self) -> None:
        self.view = View(self._store, self._random, self._hear)
        self.queue: dict[ObjectId, float] = {}
        self._busy: dict[ObjectId, None] = {}
        self._last: dict[ObjectId, float] = {}
        self._requires: dict[ObjectId, Mapping[str, Requirement]] = {}
        self._caches = FunctionCaches()
        self._cache = LiveFleetCache(self.view, self._clock) if self.live else None

    def restart(self) -> None:
        """The process starts anew and lists everything. Passes that were under way are gone."""
        self._epoch += 1
        self._start()
        for kind in list(self._store.by_kind):
            self.view.relist(kind)

    def calm(self) -> None:
        """All its troubles end, and it lists everything."""
        self.trouble, self.paused = PlaneTrouble(), False
        self.view.drop_chance = 0.0
        for kind in list(self._store.by_kind):
            self.view.relist(kind)
        for key in list(self.queue):
            self._wake_at(key, self._clock.elapsed)

    def travel(self, kind: str, back: int, seconds: float) -> None:
        """Read a kind as it was so many changes ago, for so long."""
        self.view.travel(kind, back)
        self.trouble.lag_s[kind] = seconds
        self._notice(kind, _nothing)
        self.trouble.lag_s.pop(kind)

    def _notice(self, kind: str, push: Callable[[], None]) -> None:
        push()
        if kind not in self._due_kinds:
            self._due_kinds.add(kind)
            self._clock.after(self.trouble.lag_s.get(kind, _LAG_S), lambda: self._deliver(kind))

    def _deliver(self, kind: str) -> None:
        self._due_kinds.discard(kind)
        if not self.paused:
            self.view.deliver(kind)
        elif self.view.pending.get(kind):
            self._notice(kind, _nothing)

    def _hear(self, key: ObjectId, item: Manifest | None, before: Manifest | None, by: str) -> None:
        if self._cache is not None:
            self._cache.hear(key, item)
        if key.kind in COMPOSITES and item is not None and by != f"{self.name}:{key}":
            self.wake(key)
        shown = item if item is not None else before
        if shown is None:
            return
        owner = owner_of(shown)
        if owner in self.view.uids:
            self.wake(self.view.uids[owner])
        if item is before:
            return
        for composite, wanted in self._requires.items():
            for each in wanted.values():
                if each.kind == key.kind and is_required(each, key, shown):
                    self.wake(composite)
                    break
        if self.live and key.kind in FLEET:
            self._wake_dependents(key, shown)

    def _wake_dependents(self, key: ObjectId, shown: Manifest) -> None:
        """Whom a change of the fleet may concern: a live server requires nothing of it and wakes them itself."""
        by_kind = self.view.by_kind
        woken = [*by_kind.get("ModelDeployment", ()), *by_kind.get("ModelCache", ())]
        if key.kind == "ModelReplica":
            woken.append(ObjectId("InferenceCluster", "", labels_of(shown).get(CLUSTER, "")))
            woken.append(ObjectId("ModelEndpoint", key.namespace, key.name))
        elif key.kind == "ModelCache":
            woken += [each for each in by_kind.get("ModelReplica", ()) if each.namespace == key.namespace]
        else:
            replicas = by_kind.get("ModelReplica", {}).items()
            woken += [each for each, item in replicas if labels_of(item).get(CLUSTER) == key.name]
        for each in woken:
            if self.view.get(each) is not None:
                self.wake(each)

    def wake(self, key: ObjectId, after_s: float = 0.0) -> None:
        ready = self._last.get(key, -_PAUSE_S) + _PAUSE_S
        self._wake_at(key, max(self._clock.elapsed + after_s, ready))

    def _wake_at(self, key: ObjectId, due: float) -> None:
        if due < self.queue.get(key, float("inf")):
            self.queue[key] = due
            self.most_queued = max(self.most_queued, len(self.queue))
            epoch = self._epoch
            self._clock.after(due - self._clock.elapsed, lambda: self._run(key, epoch))

    def _run(self, key: ObjectId, epoch: int) -> None:
        due = self.queue.get(key)
        if epoch != self._epoch or due is None or due > self._clock.elapsed + 1e-9:
            return
        if self.paused or key in self._busy:
            self.queue.pop(key)
            self._wake_at(key, self._clock.elapsed + _PAUSE_S)
            return
        self.queue.pop(key)
        self.reconcile(key)

    def reconcile(self, key: ObjectId) -> None:
        """One pass. Where the API server is slow, its writes come later than its reads."""
        composite = self.view.get(key)
        if composite is None or is_deleting(composite):
            self._requires.pop(key, None)
            return
        self._last[key] = self._clock.elapsed
        self.passes[key] = self.passes.get(key, 0) + 1
        try:
            done = self._decide(key, composite)
        except (CannotCompose, InputError):
            self._count("cannot compose")
            self._wake_at(key, self._clock.elapsed + _RETRY_S)
            return
        self._wake_at(key, self._clock.elapsed + done.result.ttl_s)
        if self.trouble.slow_s:
            self._busy[key] = None
            late = replace(done, facts=self.view.copy())
            epoch, version = self._epoch, self._store.version
            self._clock.after(self.trouble.slow_s, lambda: self._finish_later(late, epoch, version))
        else:
            self._finish(done)

    def _finish_later(self, done: WorldPass, epoch: int, version: int) -> None:
        if epoch == self._epoch:
            self._busy.pop(done.id, None)
            self._finish(replace(done, fresh=done.fresh and version == self._store.version))

    def _decide(self, key: ObjectId, composite: Manifest) -> WorldPass:
        found = self.view.owned.get(uid_of(composite), {})
        observed = {text_at(item, "metadata", "annotations", KEY): item for item in found.values()}
        fresh, version = self.view.fresh, self._store.version
        result, damaged = self._call(key, composite, observed)
        fresh = fresh and not damaged
        if self._cache is not None and key.kind == "ModelDeployment":
            self._cache.assume(key.kind, [each.manifest for each in result.resources.values()])
        removed = tuple(id_of(item) for name, item in observed.items() if name not in result.resources)
        fresh = fresh and version == self._store.version
        return WorldPass(self, key, composite, observed, result, fresh, removed, self.view)

    def _call(
        self, key: ObjectId, composite: Manifest, observed: Mapping[str, Manifest]
    ) -> tuple[FunctionResult, bool]:
        """Until the requirements no longer change, as Crossplane does; and whether a list was damaged."""
        any_damaged = False
        for _ in range(_ROUNDS):
            wanted = self._requires.get(key, {})
            required, damaged = self._fetch(wanted)
            any_damaged = any_damaged or damaged
            call = FunctionCall(composite, observed, required)
            result = answer(call, self._clock.now, self._cache, caches=self._caches)
            self._requires[key] = result.requirements
            if result.requirements == wanted:
                return result, any_damaged
        raise CannotCompose(f"the requirements of {key} still change after {_ROUNDS} rounds")

    def _fetch(self, wanted: Mapping[str, Requirement]) -> tuple[dict[str, tuple[Manifest, ...]], bool]:
        damaged = False
        found: dict[str, tuple[Manifest, ...]] = {}
        for name, requirement in wanted.items():
            items = found_in(self.view, requirement)
            if requirement.name is None and items and self._chance(self.trouble.shorten, "list shortened"):
                items, damaged = items[: self._random.randrange(len(items))], True
            found[name] = items
        return found, damaged

    def _finish(self, done: WorldPass) -> None:
        try:
            self._write_all(done)
        except ConflictFault:
            self._count("conflict")
            self._wake_at(done.id, self._clock.elapsed + _RETRY_S)
        except ReplyLost:
            self._count("reply lost")
            self._wake_at(done.id, self._clock.elapsed + _RETRY_S)
        except ControlPlaneCrash:
            self._count("crash between writes")
            self.restart()

    def _write_all(self, done: WorldPass) -> None:
        for key in done.removed:
            known = self._store.get(key)
            if known is not None and owner_of(known) == uid_of(done.composite):
                self._watcher.on_delete(done, key)
                self._write(partial(self._store.delete, key, done.author))
        for name, composed in done.result.resources.items():
            self._apply(done, name, composed.manifest)
        self._write_status(done)

    def _apply(self, done: WorldPass, name: str, item: Manifest) -> None:
        owner, key = uid_of(done.composite), id_of(item)
        known = self._store.get(key)
        if known is not None and (owner_of(known) != owner or is_deleting(known)):
            raise ConflictFault(f"{key} belongs to another or is being deleted")
        marked = {KEY: name, OWNER: owner}
        # A write of what is there is no write: a fault there would be none either, and it was checked when written.
        if known is not None and not differs(known, item, marked):
            return
        self._watcher.on_apply(done, item)
        if owner not in self._store.uids:
            # The garbage collector finds it, whether or not the writer hears of its write.
            self._clock.after(1.0, self._store.collect_orphans)
        self._write(lambda: self._store.apply(item, done.author, marked))

    def _write_status(self, done: WorldPass) -> None:
        known = self._store.get(done.id)
        if known is None or uid_of(known) != uid_of(done.composite):
            raise ConflictFault(f"{done.id} is gone")
        status = _status(done, self._clock.now)
        self._watcher.on_status(done, status)
        if known.get("status") == status:
            return
        if metadata_of(known)["resourceVersion"] != metadata_of(done.composite)["resourceVersion"]:
            raise ConflictFault(f"{done.id} was changed meanwhile")
        self._write(lambda: self._store.write_status(done.id, status, done.author))

    def _write(self, write: Callable[[], object]) -> None:
        self.before_write()
        if self._chance(self.trouble.crash, "crash"):
            raise ControlPlaneCrash
        if self._chance(self.trouble.conflict, "injected conflict"):
            raise ConflictFault("injected")
        write()
        if self._chance(self.trouble.lost_reply, "injected lost reply"):
            raise ReplyLost

    def _chance(self, chance: float, probe: str) -> bool:
        happens = chance > 0 and self._random.random() < chance
        if happens:
            self._count(probe)
        return happens

    def _count(self, probe: str) -> None:
        self.probes[probe] = self.probes.get(probe, 0) + 1


def _nothing() -> None:
    pass


def _status(done: WorldPass, now: float) -> dict[str, object]:
    """The status that Crossplane writes: the function's fields, its conditions and Ready."""
    before = value_at(done.composite, "status", "conditions")
    known = {str(each["type"]): each for each in before if isinstance(each, dict)} if isinstance(before, list) else {}
    generation = metadata_of(done.composite)["generation"]
    ready: dict[str, object] = {"type": "Ready", "status": "True", "reason": "Available"}
    if not done.result.ready:
        ready |= {"status": "False", "reason": "Creating"}
    conditions = [encode(condition) for condition in done.result.conditions if condition.type != "Ready"]
    for each in (*conditions, ready):
        each["observedGeneration"] = generation
        was = known.get(str(each["type"]))
        same = was is not None and was["status"] == each["status"]
        each["lastTransitionTime"] = was["lastTransitionTime"] if same and was is not None else timestamp(now)
        known[str(each["type"])] = each
    return {**done.result.status, "conditions": list(known.values())}
