"""Structs and plain objects: nothing is lost on the way, and whole numbers come back whole."""

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from modelplane.crossplane.structs import StructCodec

STRUCTS = StructCodec(2**20)
_WHOLE = st.integers(-(2**53), 2**53)
_JSON = st.recursive(
    st.none() | st.booleans() | _WHOLE | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
_OBJECTS = st.dictionaries(st.text(max_size=8), _JSON, max_size=5)


def through(content):
    struct = struct_pb2.Struct()
    STRUCTS.encode_into(struct, content)
    return STRUCTS.decode(struct_pb2.Struct.FromString(struct.SerializeToString()))


@pytest.mark.slow
@given(_OBJECTS)
def test_an_object_survives_the_way_there_and_back(content):
    assert through(content) == content
    assert through(content) == content  # the second time from memory


def test_whole_numbers_are_integers_and_others_are_not():
    found = through({"replicas": 3, "share": 0.5, "deep": [{"port": 8000.0}]})
    assert found == {"replicas": 3, "share": 0.5, "deep": [{"port": 8000}]}
    assert [type(found["replicas"]), type(found["share"]), type(found["deep"][0]["port"])] == [int, float, int]


def test_what_is_too_large_to_remember_is_converted_all_the_same():
    content = {"text": "x" * 300_000, "count": 7}
    assert through(content) == content


def test_the_order_in_which_fields_come_is_no_other_content():
    def sent(names):
        entry = {name: struct_pb2.Value(string_value=f"value of {name}") for name in names}
        inner = b"".join(struct_pb2.Struct(fields={name: value}).SerializeToString() for name, value in entry.items())
        whole = struct_pb2.Struct()
        whole.fields["status"].struct_value.MergeFromString(inner)
        return struct_pb2.Struct.FromString(whole.SerializeToString())

    names = [f"field-{number}" for number in range(20)]
    first, second = STRUCTS.decode(sent(names)), STRUCTS.decode(sent(names[::-1]))
    assert first is second
    assert first == {"status": {name: f"value of {name}" for name in names}}


def _shown(content):
    struct = struct_pb2.Struct()
    struct.update(content)
    return STRUCTS.decode_observed(struct)


def test_objects_of_one_version_are_read_once_and_others_each_by_themselves():
    metadata = {"uid": "u-seen", "resourceVersion": "7"}
    first = _shown({"metadata": metadata, "status": {"count": 1}})
    assert first == {"metadata": metadata, "status": {"count": 1}}
    assert _shown({"metadata": metadata, "status": {"count": 1}}) is first
    newer = {"metadata": {**metadata, "resourceVersion": "8"}, "status": {"count": 2}}
    assert _shown(newer) == newer
    for unnamed in ({}, {"metadata": {"uid": "u-seen"}}, {"metadata": "none"}):
        assert _shown(unnamed) == unnamed


@pytest.mark.slow
@given(_OBJECTS)
def test_what_is_written_is_what_protobuf_writes(content):
    ours, theirs = struct_pb2.Struct(), struct_pb2.Struct()
    STRUCTS.encode_into(ours, content)
    theirs.update(content)
    assert ours == theirs


def test_who_set_which_field_is_left_behind_at_any_depth():
    books = [{"manager": "m", "fieldsV1": {"f:spec": {}}}]
    there = {"metadata": {"name": "there", "managedFields": books}}
    content = {"metadata": {"name": "x", "managedFields": books}, "status": {"atProvider": {"manifest": there}}}
    assert through(content) == {
        "metadata": {"name": "x"},
        "status": {"atProvider": {"manifest": {"metadata": {"name": "there"}}}},
    }


def test_parts_that_did_not_change_are_remembered_by_themselves():
    spec = {"template": "x" * 1000}
    first, second = (through({"spec": spec, "status": {"replicas": count}}) for count in (1, 2))
    assert (first, second) == ({"spec": spec, "status": {"replicas": 1}}, {"spec": spec, "status": {"replicas": 2}})
    assert first["spec"] is second["spec"]
