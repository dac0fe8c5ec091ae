"""Whom a change concerns: those who asked for the object by name or by label, and nobody else."""

from modelplane.api.meta import ClusterName
from modelplane.apiserver.store.database import Database
from modelplane.compose.contract import Requirement
from modelplane.plane.requirements import Requirements
from modelplane.reconcile.store import ChangeType, ObjectRef, StoreChange
from modelplane.testing.clock import VirtualClock

ONE, OTHER = (ObjectRef("modelplane.ai", "ModelReplica", "a", name) for name in ("one", "other"))
EAST = ClusterName("east")


def secret(name, **labels):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "a", "labels": labels}}


def change(name, before=None, **labels):
    return StoreChange(ChangeType.MODIFIED, ObjectRef("", "Secret", "a", name), secret(name, **labels), before, 1)


def requirements(**stores):
    database = Database(None, clock=VirtualClock())
    plane = database.store("plane")
    plane.create(secret("token", app="x"))
    return Requirements(plane, lambda name: database.store(name) if name in stores else None)


def named(name, cluster=None):
    return Requirement("v1", "Secret", namespace="a", name=name, cluster=cluster)


def labelled(**labels):
    return Requirement("v1", "Secret", namespace="a", labels=labels)


def owners_requiring(asked, seen, cluster=None):
    return sorted(asked.owners_requiring(seen, cluster))


def test_by_name():
    asked = requirements()
    found = asked.fetch(ONE, {"it": named("token"), "none": named("absent")})
    assert [len(found[name]) for name in ("it", "none")] == [1, 0]
    asked.fetch(OTHER, {"it": named("absent")})
    assert owners_requiring(asked, change("token")) == [ONE]
    assert owners_requiring(asked, change("absent")) == [ONE, OTHER]
    assert owners_requiring(asked, change("third")) == []


def test_by_labels_as_it_is_and_as_it_was():
    asked = requirements()
    assert len(asked.fetch(ONE, {"all": labelled(app="x")})["all"]) == 1
    assert owners_requiring(asked, change("any", app="x")) == [ONE]
    assert owners_requiring(asked, change("any", before=secret("any", app="x"), app="y")) == [ONE]
    assert owners_requiring(asked, change("any", app="y")) == []


def test_by_nothing_but_the_kind_and_by_several_labels():
    asked = requirements()
    asked.fetch(ONE, {"all": labelled()})
    asked.fetch(OTHER, {"some": labelled(app="x", tier="y"), "others": labelled(app="x")})
    assert owners_requiring(asked, change("any", app="z")) == [ONE]
    assert owners_requiring(asked, change("any", app="x", tier="y")) == [ONE, OTHER]
    asked.fetch(OTHER, {"some": labelled(app="x", tier="y")})
    assert owners_requiring(asked, change("any", app="x")) == [ONE]


def test_each_cluster_has_its_own():
    asked = requirements(east=True)
    found = asked.fetch(ONE, {"there": named("token", EAST), "dark": named("token", ClusterName("west"))})
    assert found == {"there": ()}
    assert owners_requiring(asked, change("token")) == []
    assert owners_requiring(asked, change("token"), EAST) == [ONE]


def test_asking_anew_forgets_what_was_asked():
    asked = requirements()
    asked.fetch(ONE, {"it": named("token"), "all": labelled(app="x")})
    asked.fetch(ONE, {"it": named("absent")})
    assert owners_requiring(asked, change("token", app="x")) == []
    asked.forget(ONE)
    assert owners_requiring(asked, change("absent")) == []
    assert (asked._wanted, asked._by_owner) == ({}, {})
