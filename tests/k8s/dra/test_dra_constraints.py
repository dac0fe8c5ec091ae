"""The memory of constraints, including what upstream's forgets."""

import pytest

from modelplane.k8s.dra.constraints import attribute_name, start
from modelplane.k8s.dra.decode import decode_slices
from modelplane.k8s.dra.offers import prepare_slices
from modelplane.k8s.dra.resources import Constraint
from modelplane.testing.devices import a_device, a_slice

NAME = "gpu.example.com/x"


def offer(**attribute):
    device = a_device("d")
    device["attributes"] = {"x": attribute} if attribute else {}
    return prepare_slices(decode_slices([a_slice([device])]), list_attributes=False)[0].offers[0]


A, B, NONE = offer(string="a"), offer(string="b"), offer()


def match(*requests, lists=False):
    return start(Constraint(match_attribute=NAME, requests=requests or None), list_attributes=lists)


def distinct(*requests, lists=False):
    return start(Constraint(distinct_attribute=NAME, requests=requests or None), list_attributes=lists)


def test_matching_keeps_the_first_value():
    state = match()
    assert [state.add("r", "", found) for found in (A, B, A, NONE)] == [True, False, True, False]


def test_matching_starts_over_when_all_were_given_back():
    state = match()
    assert state.add("r", "", A)
    state.remove("r", "")
    assert state.add("r", "", B)
    assert not state.add("r", "", A)


def test_matching_needs_the_attribute_even_alone():
    assert not match().add("r", "", NONE)


@pytest.mark.parametrize("state", [match, distinct])
def test_only_named_requests_count(state):
    named = state("r")
    assert named.add("other", "", NONE)
    named.remove("other", "")
    assert not named.add("r", "", NONE)
    sub = state("r/s")
    assert sub.add("r", "t", NONE)
    assert not sub.add("r", "s", NONE)
    whole = state("r")
    assert not whole.add("r", "s", NONE)


@pytest.mark.parametrize("other", [offer(int=1), offer(bool=True), offer(version="1.0.0"), offer(strings=["a"])])
def test_matching_never_mixes_types(other):
    state = match()
    assert state.add("r", "", A)
    assert not state.add("r", "", other)


def test_an_unknown_form_is_taken_first_and_matches_nothing_after():
    lists = offer(strings=["a"])
    state = match()
    assert state.add("r", "", lists)
    assert not state.add("r", "", lists)


def test_distinct_values():
    state = distinct()
    assert [state.add(name, "", found) for name, found in (("r", A), ("s", A), ("s", B), ("t", NONE))] == [
        True,
        False,
        True,
        False,
    ]


def test_distinct_remembers_one_value_for_each_request():
    state = distinct()
    assert state.add("r", "", A)
    assert state.add("r", "", B)
    assert state.add("r", "", A)


def test_distinct_forgets_a_whole_request_when_one_device_is_given_back():
    state = distinct()
    assert state.add("r", "", A)
    assert state.add("r", "", B)
    state.remove("r", "")
    assert state.add("r", "", A)


def test_distinct_counts_types_as_different():
    state = distinct()
    assert state.add("r", "", offer(int=1))
    assert state.add("s", "", offer(string="1"))


def test_distinct_takes_an_unknown_form_only_first():
    lists = offer(strings=["a"])
    state = distinct()
    assert state.add("r", "", lists)
    assert not state.add("s", "", lists)


AB, BC, CD = offer(strings=["a", "b"]), offer(strings=["b", "c"]), offer(strings=["c", "d"])


def test_lists_match_by_what_they_have_in_common():
    state = match(lists=True)
    assert [state.add("r", "", found) for found in (AB, BC, CD, B, A)] == [True, True, False, True, False]


def test_lists_do_not_widen_again():
    state = match(lists=True)
    assert state.add("r", "", AB)
    assert state.add("r", "", BC)
    state.remove("r", "")
    assert not state.add("r", "", A)


def test_lists_start_over_when_all_were_given_back():
    state = match(lists=True)
    assert state.add("r", "", AB)
    state.remove("r", "")
    assert state.add("r", "", CD)


def test_lists_never_mix_types_and_need_a_known_form():
    state = match(lists=True)
    assert not state.add("r", "", offer(strings=[]))
    assert state.add("r", "", offer(ints=[1]))
    assert not state.add("r", "", offer(bools=[True]))


def test_lists_are_distinct_when_disjoint():
    state = distinct(lists=True)
    assert [state.add(name, "", found) for name, found in (("r", AB), ("s", BC), ("s", CD), ("t", A))] == [
        True,
        False,
        True,
        False,
    ]
    assert not state.add("u", "", offer(strings=[]))


def test_lists_are_distinct_from_nothing_when_all_were_given_back():
    state = distinct(lists=True)
    assert state.add("r", "", AB)
    state.remove("r", "")
    assert state.memory == distinct(lists=True).memory
    assert state.add("r", "", offer(strings=[]))


def test_memory_has_all_relevant_state():
    one, other = match(), match()
    one.add("r", "", A)
    other.add("r", "", A)
    other.add("r", "", A)
    assert one.memory == other.memory
    assert one.memory != match().memory
    assert distinct().memory == (0, frozenset())


def test_attribute_names():
    assert attribute_name(Constraint(match_attribute="a/b")) == "a/b"
    assert attribute_name(Constraint(distinct_attribute="c/d")) == "c/d"
    assert attribute_name(Constraint()) is None
