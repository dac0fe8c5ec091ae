"""Sets of fields and their written form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.field_sets import read, spelled, under, written

SPEC = ("f:spec",)
COUNT = ("f:spec", "f:devices", 'k:{"name":"gpu"}', "f:count")
STEPS = st.sampled_from(["f:a", "f:b", "f:.", 'k:{"name":"x"}', 'v:"y"', "i:0"])
FIELDS = st.frozensets(st.lists(STEPS, min_size=1, max_size=4).map(tuple), max_size=12)


@pytest.mark.parametrize(
    ("fields", "tree"),
    [
        ([], {}),
        ([SPEC], {"f:spec": {}}),
        ([COUNT], {"f:spec": {"f:devices": {'k:{"name":"gpu"}': {"f:count": {}}}}}),
        (
            [SPEC, COUNT, COUNT[:-1]],
            {"f:spec": {".": {}, "f:devices": {'k:{"name":"gpu"}': {".": {}, "f:count": {}}}}},
        ),
    ],
)
def test_the_written_form(fields, tree):
    assert written(fields) == tree
    assert read(tree) == frozenset(fields)


@given(FIELDS)
def test_what_is_written_is_read_back(fields):
    assert read(written(fields)) == fields


@pytest.mark.parametrize("tree", [None, [], {"f:a": 1}, {"spec": {}}, {"f:a": {"x:b": {}}}])
def test_other_trees_are_refused(tree):
    with pytest.raises(ValueError, match="fieldsV1"):
        read(tree)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (COUNT, '.spec.devices[name="gpu"].count'),
        (("f:metadata", "f:finalizers", 'v:"a/b"'), '.metadata.finalizers[="a/b"]'),
        (("f:ports", 'k:{"port":80,"protocol":"TCP"}'), '.ports[port=80,protocol="TCP"]'),
    ],
)
def test_fields_are_spelled_as_messages_name_them(field, text):
    assert spelled(field) == text


def test_what_is_below_a_prefix_includes_the_prefix():
    fields = frozenset([SPEC, COUNT, ("f:status",), ("f:specs",)])
    assert under(fields, [SPEC]) == {SPEC, COUNT}
