import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from modelplane.api.errors import DocumentError
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.admission.json_reader import as_yaml
from modelplane.k8s.admission.layout import Document
from modelplane.k8s.admission.paths import MapKey
from modelplane.k8s.admission.yaml_reader import read_yaml

MANIFESTS = b"""\
# A comment, then two documents.
apiVersion: v1
kind: One
spec:
  pools:
  - name: a
    size: 010
  - {name: b, size: no}
  plain: [1, 2]
---
kind: Two
"""
# YAML takes these for line breaks; in JSON they are characters like any other.
BREAKS = "\x85\u2028\u2029"
TEXTS = st.text(st.characters(exclude_characters=BREAKS), max_size=20)
JSON_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS
JSON_VALUES = st.recursive(
    JSON_SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def outcome(text: bytes) -> tuple[Document, ...] | str:
    """The documents, or the one line that says why there are none. Anything else that is raised fails the test."""
    try:
        return parse_documents(text, source="f")
    except DocumentError as error:
        return str(error)


def values(text: bytes) -> list[object]:
    return [document.value for document in parse_documents(text, source="f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"\n# nothing\n", []),
        (b"---\n---\n...\n", []),
        (b"null\n---\n~\n", []),
        (b"a: 1", [{"a": 1}]),
        (b"a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        (b"%YAML 1.2\n---\na: 1\n", [{"a": 1}]),
        (b"a: 'no'\nb: \"010\"\nc: |\n  yes\nd: >\n  1\n  2\n", [{"a": "no", "b": "010", "c": "yes\n", "d": "1 2\n"}]),
        (b"a: {}\nb: []\nc:\n", [{"a": {}, "b": [], "c": None}]),
        (b"'1': a\n'<<': b\n? c\n: d\n", [{"1": "a", "<<": "b", "c": "d"}]),
        (b"a: &x {k: [1]}\nb: *x\nc: [*x, &x 2, *x]", [{"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}, 2, 2]}]),
        (b"x: &x {a: 1, b: 2}\nz: {<<: *x, b: 3, c: 4}", [{"x": {"a": 1, "b": 2}, "z": {"a": 1, "b": 3, "c": 4}}]),
        (
            b"- &x {a: 1}\n- &y {a: 2, b: 2}\n- {<<: [*x, *y], c: 3}",
            [[{"a": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 2, "c": 3}]],
        ),
        (b"&x a: &y b\nc: [*x, *y]", [{"a": "b", "c": ["a", "b"]}]),
        (b'{"a": &a ["x"], "b": [*a, *a]}', [{"a": ["x"], "b": [["x"], ["x"]]}]),
        (b"- a\n- b: [1, {c: 2}]\n", [["a", {"b": [1, {"c": 2}]}]]),
        (b"just text", ["just text"]),
        (b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}]),
        ("a: \U0001f600 é \u202e\n".encode(), [{"a": "\U0001f600 é \u202e"}]),
        (b'a: "tab\\tline\\nreturn\\r"', [{"a": "tab\tline\nreturn\r"}]),
        (b"{a: b, c: [d, e]}", [{"a": "b", "c": ["d", "e"]}]),
        (b"{a: 'x, y', b: \"#\"} # end", [{"a": "x, y", "b": "#"}]),
        (b'{"a": 1.0, "b": 1e3, "c": 12345678901234567890}', [{"a": 1, "b": 1000, "c": 1.2345678901234567e19}]),
        (b'{"a": "\\ud83d\\ude00", "b": "\\\\ud83d", "c": "\\/"}', [{"a": "\U0001f600", "b": "\\ud83d", "c": "/"}]),
        (b'{"a": 1}\n{"b": 2}\n  [3]', [{"a": 1}, {"b": 2}, [3]]),
        (b'{"a": 1} {"b": 2}', [{"a": 1}, {"b": 2}]),
        (b'{"a":\t1,\n\t"b": 2}', [{"a": 1, "b": 2}]),
        (b"[" * 64 + b"]" * 64, [json.loads("[" * 64 + "]" * 64)]),
        (b"kind: List\nitems:\n- kind: A\n- kind: B\n", [{"kind": "A"}, {"kind": "B"}]),
        (b"kind: PodList\nitems: []\n", []),
        (b"kind: List\nitems:\n- kind: List\n  items: [{kind: A}]\n", [{"kind": "A"}]),
        (b"kind: Playlist\nitems: 3\n", [{"kind": "Playlist", "items": 3}]),
    ],
)
def test_values(text, expected):
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            b"a: {b: c",
            "f:2:1: not valid YAML: did not find expected ',' or '}' (while parsing a flow mapping of line 1)",
        ),
        (b"a:\n\tb: 1", "f:2:1: a tab cannot indent YAML; use spaces"),
        (b"a: 1\na: 2", 'f:2:1: key "a" is given twice; keep one'),
        (b'{"a": 1,\n "a": 2}', 'f:2:2: key "a" is given twice; keep one'),
        (b"on: push", "f:1:1: key on is not a string; write it in quotes"),
        (b"? \n: 1", "f:1:2: key null is not a string; write it in quotes"),
        (b"a:\n  b: 1\n  <<: {b: 2}", 'f:3:3: key "b" stands before <<; put << first'),
        (b"a:\n  <<: 1", "f:2:3: << takes a mapping or a list of mappings"),
        (b"<<: [{a: 1}, 2]", "f:1:1: << takes a mapping or a list of mappings"),
        (b"<<: {a: 1}\n<<: {b: 1}", 'f:2:1: key "<<" is given twice; keep one'),
        (b"a: *x", "f:1:4: alias *x has no anchor &x before it"),
        (b"a: &x 1\nb: [" + b"*x, " * 10_001 + b"]", "f:2:40005: more than 10,000 aliases; split the text"),
        (b"a: &x [*x]", "f:1:8: the value of anchor &x contains itself"),
        (b"a: &x b\n*x : 1", "f:2:1: an alias cannot be a key; write the key out"),
        (
            b"a: &x [1, 2, 3, 4, 5, 6, 7, 8, 9]\nb: [" + b"*x, " * 7_000,
            "f:2:23997: more than 60,000 values; split the text",
        ),
        (b"a: !!str 1", "f:1:4: tags (tag:yaml.org,2002:str) are not supported; leave it out"),
        (b"? [a]\n: 1", "f:1:3: a key must be a string, not a mapping or a list"),
        (b"a: .inf", "f:1:4: .inf is not a number that JSON can carry"),
        (b'a: "\\e[2J"', "f:1:4: control character U+001B is not allowed"),
        (b"[" * 65, "f:1:65: nested deeper than 64 levels"),
        (b'{"a": NaN, "b": [}', "f:1:18: not valid YAML: did not find expected node content"),
        (b"[" + b"1," * 100_001, "f:1:1: more than 60,000 values; split the text"),
        (b"- 1\n" * 100_001, "f:1:1: more than 60,000 values; split the text"),
        (b"- '1'\n" * 100_001, "f:60000:3: more than 60,000 values; split the text"),
        (b"---\n" * 1_001, "f:1001:1: more than 1,000 documents; split the text"),
    ],
)
def test_refusals_name_the_place(text, line):
    with pytest.raises(DocumentError) as caught:
        parse_documents(text, source="f")
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("path", "line", "spelling"),
    [
        ((), 2, ""),
        (("apiVersion",), 2, "v1"),
        (("spec",), 4, ""),
        (("spec", "pools"), 5, ""),
        (("spec", "pools", 0), 6, ""),
        (("spec", "pools", 0, "size"), 7, "010"),
        (("spec", "pools", 1, "size"), 8, "no"),
        (("spec", MapKey("plain"), 1), 9, "2"),
        (("spec", "absent", "deeper"), 4, ""),
        (("spec", "pools", 7, "name"), 5, ""),
        (("spec", "plain", "notAnIndex"), 9, ""),
    ],
)
def test_places(path, line, spelling):
    first, second = parse_documents(MANIFESTS, source="f")
    assert (first.line_of(path), first.spelling_of(path)) == (line, spelling)
    assert (first.line, second.line, second.line_of(("kind",))) == (2, 11, 11)


def test_places_in_lists_and_json():
    text = b'{"kind": "List",\n"items": [\n{"kind": "A",\n "b": [1,\n 2]},\n{"kind": "B"}\n]}\n{"c":\n 3}'
    one, two, three = parse_documents(text, source="f")
    assert (one.line, one.line_of(("b", 1)), one.spelling_of(("b", 1))) == (3, 5, "2")
    assert (two.line, two.line_of(("kind",))) == (6, 6)
    assert (three.line, three.spelling_of(("c",))) == (8, "3")


def test_json_that_yaml_cannot_express_has_a_position():
    long = "x" * 2_000
    (document,) = parse_documents(json.dumps({"a": {long: {"b": 1}}}).encode(), source="f")
    assert document.value == {"a": {long: {"b": 1}}}
    assert document.line_of(("a", long, "b")) == 1


def test_json_has_no_other_line_breaks():
    assert values(json.dumps({"a": BREAKS}, ensure_ascii=False).encode()) == [{"a": BREAKS}]


def json_text(value: object, indent: int | None) -> str:
    return json.dumps({"root": value}, ensure_ascii=indent is None, indent=indent)


def as_sent(value: object) -> object:
    """The value after a trip through the reader: integral floats within 64 bits are integers."""
    if isinstance(value, dict):
        return {name: as_sent(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_sent(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


@given(JSON_VALUES, st.sampled_from([None, 1]))
def test_json_reads_the_same_in_both_ways(value, indent):
    text = json_text(value, indent)
    try:
        (quick,) = parse_documents(text.encode("utf-8", "surrogatepass"), source="f")
        (slow,) = read_yaml(as_yaml(text), source="f")
    except DocumentError:
        return
    assert quick.value == slow.value
    assert quick.line_of(("root",)) == slow.line_of(("root",)) == (2 if indent else 1)


@given(JSON_VALUES)
def test_json_values_are_unchanged(value):
    text = json_text(value, None)
    found = outcome(text.encode())
    if isinstance(found, str):
        assert any(reason in found for reason in ("control character", "Unicode", "JSON can carry"))
    elif "e+" not in text and "Infinity" not in text:
        assert found[0].value == {"root": as_sent(value)}


@given(st.binary() | st.text().map(str.encode))
@example(b"\xef\xbb\xbf")
@example(b"---\n...\n---")
@example(b"{}{}{}")
@example(b"[1,]")
@example(b'{"a":1e999}')
@example(b"-0x\n")
def test_any_bytes_are_documents_or_a_document_error(text):
    found = outcome(text)
    if isinstance(found, str):
        assert found.startswith("f:")
        assert found.isprintable()
    else:
        assert all(document.line >= 1 for document in found)


YAML_WORDS = st.sampled_from(
    ["a", "b: ", "- ", "\n", "  ", "{", "}", "[", "]", ",", ": ", "'", '"', "|", ">", "#", "&x ", "*x", "!t ", "? ",
     "<<", "---\n", "...", "%", "\\", "\t", "1", "no", "\\u0000", "\\ud83d", "\u2028", "\r\n", "é", "items",
     "kind: List\n"]
)  # fmt: skip


@given(st.lists(YAML_WORDS, max_size=30).map("".join))
def test_any_yaml_like_text_is_documents_or_a_document_error(text):
    found = outcome(text.encode())
    if isinstance(found, str):
        assert found.isprintable()
    else:
        assert all(isinstance(document.value, dict | list | str | int | float) for document in found)


SHARED = st.recursive(
    st.integers(0, 9) | st.text("ab", max_size=3),
    lambda inner: inner.flatmap(
        lambda part: st.sampled_from([[part, part], {"a": part, "b": [part]}, {"a": [part, {"c": part}]}])
    ),
    max_leaves=5,
)


@given(SHARED)
def test_aliases_are_copies_with_places_of_their_own(value):
    """PyYAML writes an object that comes twice as an anchor and aliases."""
    text = yaml.safe_dump({"value": value, "last": 1}, sort_keys=False)
    (document,) = parse_documents(text.encode(), source="f")
    assert document.value == {"value": value, "last": 1}
    assert document.line_of(("last",)) == len(text.splitlines())
    assert len({id(each) for each in _collections(document.value)}) == len(list(_collections(document.value)))


def _collections(value):
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _collections(item)


def test_merged_fields_have_places():
    text = b"base: &b\n  one: {k: 1}\n  two: 2\nnext:\n  <<: *b\n  two: [3]\n  three: 4\nlast: 5\n"
    (document,) = parse_documents(text, source="f")
    assert document.value["next"] == {"one": {"k": 1}, "two": [3], "three": 4}
    places = {("next", "one", "k"): 2, ("next", "two", 0): 6, ("next", "three"): 7, ("last",): 8, ("next",): 4}
    assert {path: document.line_of(path) for path in places} == places


MERGES = st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3) | st.just([1, {"x": 2}])), max_size=3)


@given(MERGES, st.dictionaries(st.sampled_from("cdef"), st.integers(4, 6), max_size=3))
def test_merges_are_those_of_yaml(parts, own):
    """PyYAML's own reader, which knows merge keys, builds the same value."""
    anchors = "".join(f"p{index}: &p{index} {json.dumps(part)}\n" for index, part in enumerate(parts))
    merge = f"<<: [{', '.join(f'*p{index}' for index in range(len(parts)))}], " if parts else ""
    text = f"{anchors}value: {{{merge}{json.dumps(own)[1:-1]}}}\nlast: 1\n"
    (document,) = parse_documents(text.encode(), source="f")
    assert document.value == yaml.safe_load(text)
    assert document.line_of(("last",)) == len(text.splitlines())
