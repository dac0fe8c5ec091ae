"""Bodies in their three forms, media types and options."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.bodies import MOST_VALUES, count_values, read_json, read_object, read_yaml
from modelplane.apiserver.failures import ApiError
from modelplane.apiserver.media import ObjectForm, media_of, wanted_form
from modelplane.apiserver.options import (
    DeleteOptions,
    Propagation,
    WriteOptions,
    delete_options,
    list_options,
    write_options,
)
from modelplane.apiserver.protobuf import MAGIC, MEDIA, read_protobuf
from modelplane.k8s.admission.admit import UnknownFields


def varint(number):
    head, tail = number & 0x7F, number >> 7
    return bytes([head | 0x80]) + varint(tail) if tail else bytes([head])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def body_of(api_version, kind, message):
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, message) + field(3, "") + field(4, "")


METADATA = field(1, "n") + field(3, "default") + field(11, field(1, "a") + field(2, "b")) + field(14, "x/y")
EVENT = field(1, METADATA) + field(2, field(3, "chat")) + field(7, field(1, 0)) + field(8, 3) + field(99, "?")
NAMED = {"name": "n", "namespace": "default", "labels": {"a": "b"}, "finalizers": ["x/y"]}


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("Namespace", field(1, METADATA) + field(3, field(1, "Active")), {"status": {"phase": "Active"}}),
        ("ConfigMap", field(1, METADATA) + field(2, field(1, "k") + field(2, "v")) + field(2, field(1, "e")),
         {"data": {"k": "v", "e": ""}}),
        ("Secret", field(1, METADATA) + field(2, field(1, "k") + field(2, b"\xff")) + field(5, 1),
         {"data": {"k": "/w=="}, "immutable": True}),
        ("Event", EVENT,
         {"involvedObject": {"name": "chat"}, "lastTimestamp": "1970-01-01T00:00:00Z", "count": 3}),
    ],
)  # fmt: skip
def test_the_binary_form(kind, message, expected):
    found = read_object(body_of("v1", kind, message), MEDIA, kind).value
    assert found == {"apiVersion": "v1", "kind": kind, "metadata": NAMED, **expected}


def test_options_of_a_deletion_in_the_binary_form():
    message = field(1, -1) + field(2, field(1, "u")) + field(4, "Foreground") + field(5, "All")
    assert delete_options({}, body_of("v1", "DeleteOptions", message)) == DeleteOptions(
        Propagation.FOREGROUND, uid="u", dry_run=True
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        MAGIC,
        MAGIC + b"\xff" * 11,
        MAGIC + field(1, "x")[:-1],
        MAGIC + b"\x0f",
        body_of("v1", "Pod", b""),
        body_of("v1", "ConfigMap", field(1, field(7, "x"))),
        body_of("v1", "ConfigMap", field(1, field(1, b"\xff"))),
        body_of("v1", "Event", field(7, field(1, 1 << 62))),
    ],
)
def test_other_bytes_are_refused(raw):
    with pytest.raises(ValueError):  # noqa: PT011  the texts differ; that it is refused as a body is the point
        read_protobuf(raw)
    with pytest.raises(ApiError):
        read_object(raw, MEDIA, "ConfigMap")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw):
    for start in (b"", MAGIC):
        try:
            assert isinstance(read_protobuf(start + raw), dict)
        except ValueError:
            continue


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_json_is_read_as_it_is(value):
    body = read_json(json.dumps(value).encode())
    assert (body.value, body.duplicates) == (value, ())


@pytest.mark.parametrize(
    ("text", "duplicates"),
    [
        ('{"a":1,"b":{"a":1}}', ()),
        ('{"a":1,"a":2}', ("a",)),
        ('{"a":{"b":1,"b":2,"b":3}}', ("a.b", "a.b")),
        ('{"a":[{},{"b":1,"b":2}]}', ("a[1].b",)),
    ],
)
def test_duplicate_keys_are_reported(text, duplicates):
    assert read_json(text.encode()).duplicates == duplicates


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * 5000, b"{}{}", b'{"a":NaN}', b"\xff"])
def test_what_is_no_json_is_refused(raw):
    with pytest.raises(ValueError):  # noqa: PT011  the texts are those of the reader
        read_json(raw)


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b"0", 1),
        (b"[]", 2),
        (b"[1,2]", 3),
        (b'{"a":1,"b":[{}]}', 5),
        (b'{"a,[{":"{,[\\",[{"}', 2),
        (b'["\\\\",","]', 3),
    ],
)
def test_values_are_counted_outside_of_strings(raw, values):
    assert count_values(raw) == values


@given(JSON)
def test_no_more_values_are_counted_than_there_are(value):
    """An empty list or object counts as if it had a value."""
    assert sized(value) <= count_values(json.dumps(value).encode()) <= 2 * sized(value)


def sized(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(sized, inner))


@pytest.mark.parametrize("item", [b"[]", b"{}", b"0", b'""', b'{"a":0}'])
def test_very_many_values_are_refused_before_they_are_read(item):
    most = MOST_VALUES // count_values(item)
    few, many = (b"[" + b",".join([item] * count) + b"]" for count in (most // 2, 2 * most))
    assert len(read_json(few).value) == most // 2
    with pytest.raises(ValueError, match="more than 100000 values"):
        read_json(many)


def test_a_text_may_be_full_of_commas():
    body = {"data": {"table.csv": "1,2,[{" * 200_000}}
    assert read_json(json.dumps(body).encode()).value == body


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"a: 1", {"a": 1}),
        (b'{"a": 1}', {"a": 1}),
        (b"a: &x 1\nb: *x", {"a": 1, "b": 1}),
        (b"a: *x", None),
        (b"a: 1\n---\nb: 1", None),
        (b"", None),
    ],
)
def test_yaml_is_one_plain_document(raw, value):
    if value is None:
        with pytest.raises(ValueError):  # noqa: PT011  the texts are those of the reader
            read_yaml(raw)
    else:
        assert read_yaml(raw).value == value


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", ObjectForm.OBJECT),
        ("*/*", ObjectForm.OBJECT),
        ("application/json", ObjectForm.OBJECT),
        ("application/vnd.kubernetes.protobuf,application/json", ObjectForm.OBJECT),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ObjectForm.TABLE),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", ObjectForm.OBJECT),
        ("application/json; as=PartialObjectMetadataList; v=v1; g=meta.k8s.io", ObjectForm.PARTIAL),
        ("text/html", None),
        ("application/json;as=Nope;v=v1;g=meta.k8s.io", None),
    ],
)
def test_the_form_of_an_answer(accept, form):
    if form is None:
        with pytest.raises(ApiError) as caught:
            wanted_form(accept)
        assert caught.value.code == 406
    else:
        assert wanted_form(accept) is form


@pytest.mark.parametrize(
    ("header", "media"),
    [("", "application/json"), ("application/json; charset=utf-8", "application/json"), ("Text/Plain", "text/plain")],
)
def test_media_types(header, media):
    assert media_of(header) == media


def test_options_of_a_write():
    assert write_options({}, "CreateOptions", "kubectl/v1.36 (linux)") == WriteOptions("kubectl")
    assert write_options({}, "CreateOptions", "") == WriteOptions("unknown")
    query = {"fieldManager": "me", "fieldValidation": "Strict", "dryRun": "All", "force": "true"}
    assert write_options(query, "PatchOptions", "", applies=True) == WriteOptions(
        "me", UnknownFields.REFUSE, dry_run=True, force=True
    )


@pytest.mark.parametrize(
    ("query", "applies", "field_name"),
    [
        ({"fieldManager": "x" * 129}, False, "fieldManager"),
        ({"fieldManager": "a\nb"}, False, "fieldManager"),
        ({}, True, "fieldManager"),
        ({"force": "1"}, False, "force"),
        ({"dryRun": "Some"}, False, "dryRun"),
        ({"fieldValidation": "Loose"}, False, "fieldValidation"),
    ],
)
def test_options_of_a_write_that_are_wrong(query, applies, field_name):
    with pytest.raises(ApiError) as caught:
        write_options(query, "PatchOptions", "", applies=applies)
    assert (caught.value.code, caught.value.details["causes"][0]["field"]) == (422, field_name)


@pytest.mark.parametrize(
    ("query", "raw", "expected"),
    [
        ({}, b"", DeleteOptions()),
        ({"propagationPolicy": "Orphan", "dryRun": "All"}, b"", DeleteOptions(Propagation.ORPHAN, dry_run=True)),
        ({"orphanDependents": "true"}, b"", DeleteOptions(Propagation.ORPHAN)),
        (
            {},
            b'{"kind":"DeleteOptions","propagationPolicy":"Background","preconditions":{"resourceVersion":"4"}}',
            DeleteOptions(Propagation.BACKGROUND, revision="4"),
        ),
    ],
)
def test_options_of_a_deletion(query, raw, expected):
    assert delete_options(query, raw) == expected


@pytest.mark.parametrize("raw", [b"x", b"[]", b'{"kind":"Pod"}', b'{"propagationPolicy":"Nope"}', b'{"dryRun":["x"]}'])
def test_options_of_a_deletion_that_are_wrong(raw):
    with pytest.raises(ApiError):
        delete_options({}, raw)


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersion": "x"},
        {"resourceVersion": "\u0661"},
        {"resourceVersion": "-1"},
        {"limit": "x"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Nope", "resourceVersion": "1"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "1", "continue": "x"},
        {"sendInitialEvents": "true"},
        {"includeObject": "Nope"},
    ],
)
def test_options_of_a_list_that_are_wrong(query):
    with pytest.raises(ApiError):
        list_options(query)


@pytest.mark.parametrize("query", [{"sendInitialEvents": "true"}, {"resourceVersionMatch": "Exact"}, {"continue": "x"}])
def test_options_of_a_watch_that_are_wrong(query):
    with pytest.raises(ApiError):
        list_options(query, watch=True)
