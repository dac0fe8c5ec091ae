"""The store against a model of it that is a dictionary and little else, through any sequence of calls."""

import tempfile
from copy import deepcopy
from itertools import count
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from modelplane.api.errors import ConflictError, InvalidObject, NotFoundError
from modelplane.apiserver.store.database import Database
from modelplane.reconcile.store import ChangeType, ObjectRef
from modelplane.testing.clock import VirtualClock

NAMES = st.sampled_from(["one", "two", "three"])
CONTENT = st.fixed_dictionaries({}, optional={"n": st.sampled_from([0, 1, 1.0, True, None, "1"])})
FINALIZERS = st.lists(st.sampled_from(["a/b", "c/d"]), unique=True)
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)


def ref(name):
    return ObjectRef("modelplane.ai", "Thing", "a", name)


def exactly(value):
    """A form in which 1, 1.0 and true differ and the order of keys does not matter."""
    if isinstance(value, dict):
        return frozenset((key, exactly(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(exactly, value))
    return (type(value).__name__, value)


class Model:
    """name → object. Says what each call must answer."""

    def __init__(self):
        self.objects = {}
        self.revision = 0
        self.told = []

    def bump(self, kind, name, manifest):
        self.revision += 1
        manifest["metadata"]["resourceVersion"] = str(self.revision)
        self.told.append((self.revision, kind, name))
        if kind is ChangeType.DELETED:
            del self.objects[name]
        else:
            self.objects[name] = manifest
        return manifest

    def create(self, given, uid, now):
        name = given["metadata"]["name"]
        if name in self.objects:
            return ConflictError
        made = deepcopy(given)
        made["metadata"] |= {"uid": uid, "generation": 1, "creationTimestamp": now}
        return self.bump(ChangeType.ADDED, name, made)

    def check(self, given):
        current = self.objects.get(given["metadata"]["name"])
        if current is None:
            return NotFoundError
        stale = any(
            field in given["metadata"] and given["metadata"][field] != current["metadata"][field]
            for field in ("uid", "resourceVersion")
        )
        return ConflictError if stale else None

    def replace(self, given):
        if (refused := self.check(given)) is not None:
            return refused
        name = given["metadata"]["name"]
        before = self.objects[name]
        after = deepcopy(before)
        after["spec"] = deepcopy(given["spec"])
        for field in ("labels", "finalizers"):
            after["metadata"].pop(field, None)
            if given["metadata"].get(field):
                after["metadata"][field] = deepcopy(given["metadata"][field])
        ending = "deletionTimestamp" in before["metadata"]
        kept = after["metadata"].get("finalizers", [])
        if ending and not set(kept) <= set(before["metadata"]["finalizers"]):
            return InvalidObject
        if exactly(after) == exactly(before):
            return before
        if exactly(after["spec"]) != exactly(before["spec"]):
            after["metadata"]["generation"] += 1
        return self.bump(ChangeType.DELETED if ending and not kept else ChangeType.MODIFIED, name, after)

    def replace_status(self, given):
        if (refused := self.check(given)) is not None:
            return refused
        name = given["metadata"]["name"]
        before = self.objects[name]
        if exactly(before.get("status")) == exactly(given["status"]):
            return before
        return self.bump(ChangeType.MODIFIED, name, deepcopy(before) | {"status": deepcopy(given["status"])})

    def delete(self, name, uid, now):
        if name not in self.objects:
            return NotFoundError
        current = deepcopy(self.objects[name])
        metadata = current["metadata"]
        if uid is not None and uid != metadata["uid"]:
            return ConflictError
        if not metadata.get("finalizers"):
            self.bump(ChangeType.DELETED, name, current)
        elif "deletionTimestamp" not in metadata:
            metadata |= {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
            metadata["generation"] += 1
            self.bump(ChangeType.MODIFIED, name, current)
        return None


def answer(call, *arguments, **options):
    """What a call returned, or the type it raised."""
    try:
        return call(*arguments, **options)
    except (ConflictError, NotFoundError, InvalidObject) as error:
        return type(error)


class StoreMachine(RuleBasedStateMachine):
    versions = Bundle("versions")
    """Objects as some writer once read them: their resourceVersion may be stale by the time they are written."""

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.clock = VirtualClock()
        self.ids = count(1)
        self.newest_id = ""
        self.model = Model()
        self.batch = None
        self.on_change = []
        self.open()

    def next_id(self):
        self.newest_id = f"uid-{next(self.ids)}"
        return self.newest_id

    def open(self):
        self.database = Database(Path(self.folder.name) / "x.db", clock=self.clock, new_id=self.next_id)
        self.store = self.database.store("plane")
        self.store.subscribe(lambda change: self.on_change.append((change.revision, change.type, change.ref.name)))

    def now(self):
        minutes, seconds = divmod(int(40 + self.clock.monotonic()), 60)
        return f"2025-06-15T15:{6 + minutes:02}:{seconds:02}Z"

    @rule()
    def wait(self):
        self.clock.advance(1)

    @rule(target=versions, name=NAMES, spec=CONTENT, finalizers=FINALIZERS, labels=LABELS)
    def create(self, name, spec, finalizers, labels):
        metadata = {"name": name, "namespace": "a"}
        metadata |= {"finalizers": finalizers} if finalizers else {}
        metadata |= {"labels": labels} if labels else {}
        given = {"apiVersion": "modelplane.ai/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
        made = answer(self.store.create, given)
        expected = self.model.create(given, self.newest_id, self.now())
        assert made == expected
        return made if isinstance(made, dict) else multiple()

    def changed(self, version, *, blind, labels=None, finalizers=None, **content):
        metadata = dict(version["metadata"])
        if blind:
            del metadata["resourceVersion"]
        if labels is not None:
            metadata |= {"labels": labels, "finalizers": finalizers}
        return {**version, **content, "metadata": metadata}

    @rule(target=versions, version=versions, blind=st.booleans(), spec=CONTENT, finalizers=FINALIZERS, labels=LABELS)
    def replace(self, version, blind, spec, finalizers, labels):
        given = self.changed(version, blind=blind, labels=labels, finalizers=finalizers, spec=spec)
        after = answer(self.store.replace, given)
        assert exactly_or_type(after) == exactly_or_type(self.model.replace(given))
        return after if isinstance(after, dict) else multiple()

    @rule(target=versions, version=versions, blind=st.booleans(), status=CONTENT)
    def replace_status(self, version, blind, status):
        given = self.changed(version, blind=blind, status=status)
        after = answer(self.store.replace_status, given)
        assert exactly_or_type(after) == exactly_or_type(self.model.replace_status(given))
        return after if isinstance(after, dict) else multiple()

    @rule(version=consumes(versions), by_uid=st.booleans())
    def delete(self, version, by_uid):
        name, uid = version["metadata"]["name"], version["metadata"]["uid"] if by_uid else None
        assert answer(self.store.delete, ref(name), uid=uid) == self.model.delete(name, uid, self.now())

    @precondition(lambda self: self.batch is None)
    @rule()
    def begin_batch(self):
        self.before_batch = deepcopy(self.model)
        self.batch = self.store.batch()
        self.batch.__enter__()

    @precondition(lambda self: self.batch is not None)
    @rule()
    def commit_batch(self):
        batch, self.batch = self.batch, None
        batch.__exit__(None, None, None)

    @precondition(lambda self: self.batch is not None)
    @rule()
    def abandon_batch(self):
        batch, self.batch = self.batch, None
        error = KeyError("abandoned")
        assert batch.__exit__(KeyError, error, None) is False
        self.model = self.before_batch

    @precondition(lambda self: self.batch is None)
    @rule()
    def reopen(self):
        self.database.close()
        self.open()

    @invariant()
    def holds_what_the_model_holds(self):
        listed = self.store.list("modelplane.ai", "Thing")
        expected = [self.model.objects[name] for name in sorted(self.model.objects)]
        assert list(map(exactly, listed)) == list(map(exactly, expected))
        assert self.store.revision == self.model.revision

    @invariant()
    def tells_what_happened_in_order_and_only_when_it_is_certain(self):
        certain = self.model if self.batch is None else self.before_batch
        assert self.on_change == certain.told

    def teardown(self):
        if self.batch is not None:
            self.abandon_batch()
        self.database.close()
        self.folder.cleanup()


def exactly_or_type(value):
    return exactly(value) if isinstance(value, dict) else value


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
