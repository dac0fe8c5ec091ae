"""What an informer tells, over every way in which a list or a watch can go."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.kube import (
    ChangeKind,
    GroupVersionResource,
    Informer,
    InformerEvent,
    InformerSettings,
    NamespacedName,
    Query,
)
from tests.support.kube_api import running, tell
from tests.support.waiting import until

WIDGETS = GroupVersionResource("example.org", "v1", "widgets")
QUICK = InformerSettings(page=2, backoff_first_s=0.01, backoff_most_s=0.05, short_s=0.2)


def widget(name, size=1, namespace="here", **metadata):
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": {"size": size, "noise": "x" * 50}}


def size_of(raw):
    return raw["spec"]["size"]


def informer_of(client, said, keep=size_of, settings=QUICK, **query):
    informer = Informer(client, Query(WIDGETS, **query), keep, settings=settings)
    informer.listen(lambda events: said.extend((e.change.value, e.key.name, e.value) for e in events))
    return informer


def test_a_list_of_several_pages_is_told_once_and_then_what_changes():
    async def story(api, client):
        for name in "abcde":
            api.put(WIDGETS, widget(name))
        said = []
        informer = informer_of(client, said)
        assert not informer.synced
        async with running(informer.run()):
            await informer.wait_synced()
            assert said == [("added", name, 1) for name in "abcde"]
            assert api.asked["list"] == 3
            await until(lambda: api.asked["watch"])
            api.put(WIDGETS, widget("b", 2))
            api.put(WIDGETS, widget("f"))
            api.delete(WIDGETS, "a", "here")
            await until(lambda: len(said) == 8)
        assert said[5:] == [("changed", "b", 2), ("added", "f", 1), ("deleted", "a", 1)]
        assert dict(informer.snapshot) == {NamespacedName("here", name): 2 if name == "b" else 1 for name in "bcdef"}
        assert api.asked["list"] == 3

    tell(story)


def test_nothing_there_is_synced_and_empty():
    async def story(_, client):
        informer = informer_of(client, said := [])
        async with running(informer.run()):
            await informer.wait_synced()
        assert (informer.synced, dict(informer.snapshot), said, informer.problem) == (True, {}, [], "")

    tell(story)


def test_a_forgotten_version_leads_to_a_new_list_and_only_the_difference_is_told():
    async def story(api, client):
        for name in "abc":
            api.put(WIDGETS, widget(name))
        said = []
        informer = informer_of(client, said)
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            said.clear()
            api.refusals["watch"] = 500
            api.drop()
            await until(lambda: informer.problem)
            api.delete(WIDGETS, "a", "here")
            api.put(WIDGETS, widget("b", 5))
            api.put(WIDGETS, widget("d"))
            api.forget()
            api.refusals.clear()
            await until(lambda: len(said) == 3)
            await until(lambda: not informer.problem)
        assert said == [("deleted", "a", 1), ("changed", "b", 5), ("added", "d", 1)]

    tell(story)


def test_a_dropped_watch_continues_where_it_was():
    async def story(api, client):
        api.put(WIDGETS, widget("a"))
        said = []
        informer = informer_of(client, said)
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            api.bookmark()
            api.drop()
            api.put(WIDGETS, widget("b"))
            await until(lambda: len(said) == 2)
        assert api.asked["list"] == 1

    tell(story)


def test_a_watch_that_falls_silent_is_made_anew_where_it_was():
    async def story(api, client):
        api.put(WIDGETS, widget("a"))
        said = []
        informer = informer_of(client, said, settings=msgspec.structs.replace(QUICK, silent_s=0.2))
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            api.bookmark()
            api.mute()
            api.put(WIDGETS, widget("b"))
            api.delete(WIDGETS, "a", "here")
            await until(lambda: len(said) == 3)
        assert said == [("added", "a", 1), ("added", "b", 1), ("deleted", "a", 1)]
        assert (api.asked["list"], informer.problem) == (1, "")

    tell(story)


def test_a_bookmark_saves_a_list_when_older_history_is_forgotten():
    async def story(api, client):
        api.put(WIDGETS, widget("a"))
        informer = informer_of(client, said := [])
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            version = informer._version
            api.bookmark()
            await until(lambda: informer._version != version)
            api.forget()
            api.drop()
            await until(lambda: api.asked["watch"] == 2)
            api.put(WIDGETS, widget("b"))
            await until(lambda: len(said) == 2)
        assert api.asked["list"] == 1

    tell(story)


def test_an_object_made_anew_under_its_name_is_another_object():
    async def story(api, client):
        api.put(WIDGETS, widget("a", uid="first"))
        said = []
        informer = informer_of(client, said)
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            api.refusals["watch"] = 500
            api.drop()
            await until(lambda: informer.problem)
            api.delete(WIDGETS, "a", "here")
            api.put(WIDGETS, widget("a", uid="second"))
            api.forget()
            api.refusals.clear()
            await until(lambda: len(said) == 3)
        assert said == [("added", "a", 1), ("deleted", "a", 1), ("added", "a", 1)]

    tell(story)


def test_changes_that_are_not_kept_are_not_told_and_objects_not_kept_are_not_there():
    async def story(api, client):
        informer = informer_of(client, said := [], keep=lambda raw: size_of(raw) or None)
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            api.put(WIDGETS, widget("a"))
            api.put(WIDGETS, widget("a", labels={"other": "label"}))
            api.put(WIDGETS, widget("a", 0))
            api.put(WIDGETS, widget("b", 0))
            api.put(WIDGETS, widget("c", 3))
            await until(lambda: ("added", "c", 3) in said)
        assert said == [("added", "a", 1), ("deleted", "a", 1), ("added", "c", 3)]

    tell(story)


def test_an_object_that_cannot_be_read_stays_as_it_was_last_read():
    async def story(api, client):
        api.put(WIDGETS, widget("a", 4))
        api.put(WIDGETS, {"metadata": {"name": "z", "namespace": "here"}})
        informer = informer_of(client, said := [])
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            api.put(WIDGETS, {"metadata": {"name": "a", "namespace": "here"}, "spec": 7})
            api.put(WIDGETS, widget("b"))
            await until(lambda: len(said) == 2)
        assert dict(informer.snapshot) == {NamespacedName("here", "a"): 4, NamespacedName("here", "b"): 1}

    tell(story)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_kind_that_cannot_be_listed_is_not_synced_and_says_why(status):
    async def story(api, client):
        api.refusals["list"] = status
        api.put(WIDGETS, widget("a"))
        informer = informer_of(client, said := [])
        async with running(informer.run()):
            await until(lambda: api.asked["list"] >= 3)
            assert (informer.synced, said) == (False, [])
            assert informer.problem == f"widgets.example.org: {status} Refused: told to refuse"
            api.refusals.clear()
            await informer.wait_synced()
            await until(lambda: not informer.problem)
        assert said == [("added", "a", 1)]

    tell(story)


def test_what_is_held_outlives_the_api():
    async def story(api, client):
        api.put(WIDGETS, widget("a"))
        informer = informer_of(client, [])
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            api.refusals.update({"list": 503, "watch": 503})
            api.drop()
            await until(lambda: "503" in informer.problem)
            assert informer.synced
            assert dict(informer.snapshot) == {NamespacedName("here", "a"): 1}

    tell(story)


def test_watches_that_end_at_once_are_spaced_out():
    async def story(api, client):
        slow = InformerSettings(backoff_first_s=1000, backoff_most_s=1000, short_s=5)
        informer = informer_of(client, [], settings=slow)
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            api.drop()
            await until(lambda: not api._stir)
            await until(lambda: not informer.problem)
        assert api.asked["watch"] == 1

    tell(story)


def test_a_list_is_repeated_against_lost_events():
    async def story(api, client):
        informer = informer_of(client, said := [], settings=InformerSettings(resync_s=0.0, short_s=0.0))
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            key = (WIDGETS, "here", "lost")
            api._objects[key] = widget("lost", uid="u")
            api.drop()
            await until(lambda: said)
        assert said == [("added", "lost", 1)]

    tell(story)


def test_namespace_labels_and_fields_narrow_what_is_asked_for():
    async def story(api, client):
        api.put(WIDGETS, widget("a", labels={"app": "x"}))
        api.put(WIDGETS, widget("b", labels={"app": "x"}, namespace="there"))
        api.put(WIDGETS, widget("c"))
        for query, names in (
            ({"namespace": "here"}, "ac"),
            ({"labels": "app=x"}, "ab"),
            ({"fields": "metadata.name=c"}, "c"),
            ({}, "abc"),
        ):
            informer = informer_of(client, [], **query)
            async with running(informer.run()):
                await informer.wait_synced()
                assert "".join(sorted(key.name for key in informer.snapshot)) == names

    tell(story)


def test_who_listens_late_hears_what_is_there_and_who_stops_hears_no_more():
    async def story(api, client):
        api.put(WIDGETS, widget("a"))
        informer = informer_of(client, [])
        async with running(informer.run()):
            await until(lambda: api.asked["watch"])
            late, later = [], []
            stop = informer.listen(late.extend)
            informer.listen(later.extend)
            stop()
            api.put(WIDGETS, widget("b"))
            await until(lambda: len(later) == 2)
        assert late == [InformerEvent(ChangeKind.ADDED, NamespacedName("here", "a"), 1)]

    tell(story)


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.sampled_from(["drop", "forget", "bookmark"]), st.just(""), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=10)
@given(ACTS)
def test_whatever_happens_the_events_add_up_to_what_is_there(acts):
    async def story(api, client):
        seen = {}

        def follow(events):
            for event in events:
                if event.change is ChangeKind.DELETED:
                    assert seen.pop(event.key) == event.value
                else:
                    assert (event.key in seen) == (event.change is ChangeKind.CHANGED)
                    seen[event.key] = event.value

        informer = Informer(client, Query(WIDGETS), size_of, settings=QUICK)
        informer.listen(follow)
        async with running(informer.run()):
            await informer.wait_synced()
            held = {}
            for act, name, size in acts:
                if act == "put":
                    api.put(WIDGETS, widget(name, size))
                    held[NamespacedName("here", name)] = size
                elif act == "delete":
                    if held.pop(NamespacedName("here", name), None) is not None:
                        api.delete(WIDGETS, name, "here")
                else:
                    getattr(api, act)()
            await until(lambda: seen == held)
            assert dict(informer.snapshot) == held

    tell(story)
