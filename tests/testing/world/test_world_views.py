from random import Random

from modelplane.testing.world.store import ApiStore, ObjectId
from modelplane.testing.world.views import View

KIND = "ModelReplica"


class Watched:
    """A store, a view of it, and what the view hears."""

    def __init__(self):
        self.store, self.heard = ApiStore(lambda: 0.0), []
        random = Random(1)  # noqa: S311  reproducible, not secret
        self.view = View(self.store, random, lambda key, item, *_: self.heard.append((key.name, item is not None)))
        self.store.listeners.append(self.view.push)

    def write(self, name, value):
        item = {"kind": KIND, "metadata": {"name": name}, "spec": {"value": value}}
        self.store.apply(item, "me")

    def shown(self):
        return {key.name: item["spec"]["value"] for key, item in self.view.by_kind.get(KIND, {}).items()}


def test_a_view_shows_what_was_delivered():
    watched = Watched()
    watched.write("a", 1)
    assert (watched.shown(), watched.view.fresh) == ({}, False)
    watched.view.deliver(KIND)
    assert (watched.shown(), watched.view.fresh) == ({"a": 1}, True)


def test_a_dropped_change_is_missed_until_the_view_lists():
    watched = Watched()
    watched.view.drop_chance = 1.0
    watched.write("a", 1)
    watched.view.deliver(KIND)
    assert (watched.shown(), watched.view.fresh) == ({}, False)
    watched.view.relist(KIND)
    assert (watched.shown(), watched.view.fresh) == ({"a": 1}, True)


def test_a_view_that_goes_back_hears_the_changes_again():
    watched = Watched()
    for value in (1, 2, 3):
        watched.write("a", value)
    watched.view.deliver(KIND)
    watched.view.travel(KIND, 2)
    assert (watched.shown(), watched.view.fresh) == ({"a": 1}, False)
    watched.view.deliver(KIND)
    assert watched.shown() == {"a": 3}


def test_a_compacted_watch_lists():
    watched = Watched()
    watched.write("a", 1)
    watched.write("a", 2)
    watched.store.compact()
    watched.view.deliver(KIND)
    assert (watched.shown(), watched.heard) == ({"a": 2}, [("a", True)])


def test_reordered_changes_keep_the_order_of_each_object():
    watched = Watched()
    for value in range(4):
        for name in "abc":
            watched.write(name, value)
    assert watched.view.reorder(KIND)
    order = [change.id.name for change in watched.view.pending[KIND]]
    assert order != list("abc" * 4)
    watched.view.deliver(KIND)
    assert watched.shown() == {"a": 3, "b": 3, "c": 3}


def test_a_deleted_object_leaves_the_view():
    watched = Watched()
    watched.write("a", 1)
    watched.store.purge(ObjectId(KIND, "", "a"), "me")
    watched.view.deliver(KIND)
    assert (watched.shown(), watched.view.uids) == ({}, {})
