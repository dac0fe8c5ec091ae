"""Documents that were written to break a reader. Each is refused with one line, in little memory.

How soon is measured by the set `hostile` of bench/, which reads the same table.
"""

import tracemalloc

import pytest

from modelplane.api.errors import DocumentError
from modelplane.k8s.admission.documents import parse_documents

MOST_MEMORY_RATIO = 100
SMALL = 64 * 1024

LAUGHS = b"a0: &a0 [x, x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 30))

ALIASES = {
    "billion laughs": LAUGHS,
    "billion laughs in flow": b"[&a [x, x], " + b"&a [*a, *a], " * 60 + b"]",
    "quadratic blow-up": b"a: &x [" + b"1, " * 1_000 + b"]\nb: [" + b"*x, " * 100 + b"]\n",
    "long text, many times": b"a: &x " + b"x" * 500_000 + b"\nb: [" + b"*x, " * 50_000 + b"]\n",
    "long key, many times": b"a: &x {'" + b"x" * 500 + b"': 1}\nb: [" + b"*x, " * 20_000 + b"]\n",
    "depth by aliases": b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 70)),
    "many anchors": b"[" + b"&a a, " * 200_000 + b"]",
    "many aliases": b"a: &x 1\nb: [" + b"*x, " * 200_000 + b"]\n",
    "alias of another document": b"a: &x 1\n---\nb: *x\n",
    "alias of itself, named before": b"a: &x 1\nb: &x [*x]\n",
    "alias of a key, as key": b"&x a: 1\n*x : 2\n",
    "alias of nothing": b"a: *x\n",
    "alias as key": b"*x : 1\n",
    "alias in list": b"- *x\n",
    "alias with a huge name": b"a: *" + b"x" * 1_000_000 + b"\n",
    "self reference": b"a: &x [*x]\n",
    "merges that leave nothing": b"a: &x {k: [" + b"1, " * 5_000 + b"]}\nb: [" + b"{<<: *x, k: 1}, " * 10_000 + b"]\n",
    "merge of a list that is repeated": b"a: &x {k: 1}\nb: {<<: [" + b"*x, " * 100_000 + b"]}\n",
    "merge of itself": b"a: &x {<<: *x}\n",
    "merge of a text": b"<<: a\n",
}
TAGS = {
    f"tag {tag.decode()}": b"a: " + tag + b" x\n"
    for tag in (
        b"!", b"!!str", b"!!int", b"!!float", b"!!null", b"!!bool", b"!!binary", b"!!timestamp", b"!!set", b"!!omap",
        b"!!python/name:os.system", b"!!python/object:os.system", b"!!python/object/new:os.system",
        b"!!python/object/apply:os.system", b"!!python/module:os", b"!<tag:yaml.org,2002:str>", b"!local", b"!e!x",
        b"!!java.lang.Runtime", b"!ruby/object:Gem", b"!!js/function", b"!vault", b"!Ref", b"!" + b"x" * 1_000_000,
    )
}  # fmt: skip
TAGS |= {
    "tag on mapping": b"a: !!map {b: 1}\n",
    "tag on list": b"a: !!seq [1]\n",
    "tag on key": b"!!str a: 1\n",
    "tag on document": b"--- !!map\na: 1\n",
    "tag directive": b"%TAG !e! tag:example.com,2000:\n---\na: !e!x 1\n",
}
DEPTH = {
    "deep flow lists": b"[" * 100_000,
    "deep flow lists, closed": b"[" * 1_000 + b"]" * 1_000,
    "deep flow mappings": b"{a: " * 100_000,
    "deep json objects": b'{"a":' * 100_000,
    "deep json mix": b'[{"a":' * 50_000,
    "deep block lists": b"- " * 100_000,
    "deep block mappings": b"".join(b" " * n + b"a:\n" for n in range(1_500)),
    "deep block mix": b"".join(b" " * (2 * n) + b"- a:\n" for n in range(1_000)),
    "deep explicit keys": b"? " * 100_000,
    "one level too many": b"[" * 65 + b"]" * 65,
    "deep after a good document": b"a: 1\n---\n" + b"[" * 100_000,
    "deep below wide": b"[" + b"1, " * 1_000 + b"[" * 50_000,
}
COUNT = {
    "many flow items": b"[" + b"1," * 1_000_000 + b"]",
    "many flow strings": b"[" + b'"a",' * 700_000 + b"]",
    "many empty lists": b"[" + b"[]," * 1_000_000 + b"]",
    "many empty mappings": b"[" + b"{}," * 1_000_000 + b"]",
    "many small mappings": b"[" + b"{a}," * 700_000 + b"]",
    "many block items": b"- 1\n" * 700_000,
    "many block keys": b"".join(b"k%d: 1\n" % n for n in range(200_000)),
    "many json keys": b"{" + b",".join(b'"k%d":1' % n for n in range(200_000)) + b"}",
    "many documents": b"---\n" * 700_000,
    "many documents with content": b"--- 1\n" * 500_000,
    "many json documents": b"{}\n" * 100_000,
    "one document too many": b"--- a\n" * 1_001,
    "one node too many": b"[" + b"1," * 100_000 + b"]",
    "many near the deepest level": b"[" + (b"[" * 62 + b"]" * 62 + b",") * 20_000 + b"]",
    "many json items": b"[" + b"1," * 1_000_000 + b"1]",
    "many json lists": b"[" + b"[]," * 1_000_000 + b"[]]",
    "many json objects": b"[" + b"{}," * 1_000_000 + b"{}]",
    "many values that only a parser can count": b"[" + b"'a', " * 120_000 + b"]",
    "many quoted block items": b'- "a"\n' * 120_000,
    "many json values, one after the other": b"[1,1,1,1,1,1,1,1,1,1]\n" * 100_000,
}
SIZE = {
    "one byte too long": b"#" + b"x" * (3 * 1024 * 1024),
    "ten times too long": b"a: " + b"x" * (30 * 1024 * 1024),
    "too long and binary": b"\0" * (4 * 1024 * 1024),
    "long key": b"x" * 2_000_000 + b": 1\n",
    "long key in quotes": b'"' + b"x" * 2_000_000 + b'": 1\n',
    "long text, then a control character": b"a: " + b"x" * 2_900_000 + b"\x07",
    "long text, then bad utf-8": b"a: " + b"x" * 2_900_000 + b"\xff",
    "long text, then a syntax error": b"a: " + b"x" * 2_900_000 + b"\nb: [\n",
    "long comments, then a duplicate": b"a: 1\n" + b"#\n" * 1_000_000 + b"a: 2\n",
    "long escapes, then nothing": b'a: "' + b"\\n" * 1_400_000,
    "long run of backslashes": b'{"a": "' + b"\\" * 2_900_000,
    "long run of quotes": b'"' * 2_900_000,
    "long run of apostrophes": b"a: " + b"'" * 2_900_001,
    "long run of commas": b"[" + b"," * 2_900_000,
    "long run of colons": b": " * 1_400_000,
    "long run of closing brackets": b"]" * 2_900_000,
    "long run of tabs": b"\t" * 2_900_000 + b"a",
    "long run of blanks after a value": b"{}" + b" " * 2_900_000 + b"{",
    "long run of half pairs": b'{"a": "' + b"\\ud83d" * 400_000 + b'"}',
    "long list of quoted texts": b'["' + b'a","' * 700_000 + b'a"]',
}
KEYS = {
    f"key {key.decode()}": key + b": 1\n"
    for key in (
        b"1", b"-1", b"010", b"0x1F", b"1_000", b"1.5", b".5", b"1e3", b"true", b"no", b"yes", b"on", b"off", b"y",
        b"N", b"~", b"null", b"",
    )
}  # fmt: skip
KEYS |= {
    "list as key": b"? [a]\n: 1\n",
    "mapping as key": b"? {a: 1}\n: 1\n",
    "flow list as key": b"{[a]: 1}",
    "duplicate key": b"a: 1\nb: 2\na: 3\n",
    "duplicate key, nested": b"a:\n- b: 1\n  b: 2\n",
    "duplicate key, differently quoted": b"a: 1\n'a': 2\n",
    "duplicate key, escaped": b'{"a": 1, "\\u0061": 2}',
    "duplicate key in json": b'{"a": 1, "a": 1}',
    "duplicate key in flow": b"{a: 1, a: 2}",
    "duplicate key in the second document": b"a: 1\n---\nb: 1\nb: 2\n",
}
ENCODINGS = {
    **{f"control character {code:#04x}": b"a: x%cy\n" % code for code in range(32) if code not in b"\t\n\r"},
    **{f"C1 character {code:#04x}": f"a: x{chr(code)}y\n".encode() for code in (0x80, 0x84, 0x86, 0x90, 0x9B, 0x9F)},
    **{f"escaped control {code:#04x}": b'a: "\\x%02x"\n' % code for code in (0, 1, 7, 8, 0x1B, 0x7F, 0x9B)},
    "escaped NUL": b'a: "\\0"\n',
    "escaped escape": b'a: "\\e[2J"\n',
    "NUL in json": b'{"a": "\\u0000"}',
    "escape in json": b'{"a": "\\u001b[2J"}',
    "NUL in a key": b'"a\\0b": 1\n',
    "half a pair": b'{"a": "\\ud800"}',
    "the other half": b'{"a": "\\udc00"}',
    "a pair the wrong way round": b'{"a": "\\udc00\\ud800"}',
    "DEL": b"a: x\x7fy\n",
    "byte order mark in the middle": "a: x\ufeffy\n".encode(),
    "not a character": "a: x\ufffey\n".encode(),
    "UTF-16 little endian": "a: 1\n".encode("utf-16"),
    "UTF-16 big endian": b"\xfe\xff" + "a: 1\n".encode("utf-16-be"),
    "UTF-16 without mark": "a: 1\n".encode("utf-16-le"),
    "UTF-32 little endian": "a: 1\n".encode("utf-32"),
    "UTF-32 big endian": b"\x00\x00\xfe\xff" + "a: 1\n".encode("utf-32-be"),
    "Latin-1": "a: é\n".encode("latin-1"),
    "lone continuation byte": b"a: \x80\n",
    "overlong slash": b"a: \xc0\xaf\n",
    "overlong NUL": b"a: \xc0\x80\n",
    "surrogate as UTF-8": b"a: \xed\xa0\x80\n",
    "beyond Unicode": b"a: \xf4\x90\x80\x80\n",
    "cut in the middle of a character": b"a: \xe2\x82",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "PNG": b"\x89PNG\r\n\x1a\n\x00\x00",
    "ELF": b"\x7fELF\x02\x01\x01",
    "zip": b"PK\x03\x04\x14\x00",
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00",
    "every byte": bytes(range(256)),
}
SYNTAX = {
    f"broken {index}: {text!r}": text
    for index, text in enumerate((
        b"a: [1", b"a: {b: 1", b"a: 'x", b'a: "x', b"[1, 2", b"{", b"[", b"]", b"}", b"a: ]", b"a: b: c", b"a\nb: 1",
        b"a: 1\n b: 2", b"a:\n  - 1\n - 2", b"- a\nb: 1", b"\ta: 1", b"a:\n\tb: 1", b"a: @b", b"a: `b",
        b"%YAML 3.0\n---\na",
        b"%FOO\n---\na: 1", b"%YAML\n", b"a: |3x\n  b", b"a: >-+\n b", b'a: "\\q"', b'a: "\\x1"', b'a: "\\U99999999"',
        b'{"a": 1} trailing', b'{"a": 1}}', b'{"a" 1}', b'{"a": 1,, "b": 2}', b'{"a": "x"y}', b"--- a\n--- [", b"a: !",
        b"a: &", b"a: *", b"? a\n: b\n: c", b"- - -\n- :\n -", b"a: .inf", b"a: -.Inf", b"a: [.nan]",
    ))
}  # fmt: skip

CORPUS = {**ALIASES, **TAGS, **DEPTH, **COUNT, **SIZE, **KEYS, **ENCODINGS, **SYNTAX}


def test_the_corpus_is_large():
    assert len(CORPUS) >= 200


def refusal(text: bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_documents(text, source="hostile.yaml")
    return str(caught.value)


@pytest.mark.parametrize("text", CORPUS.values(), ids=[name[:60] for name in CORPUS])
def test_refused_with_one_printable_line(text):
    line = refusal(text)
    assert line.startswith("hostile.yaml:")
    assert line.isprintable()
    assert len(line) < 400


# Tracing allocations is slow: a few of each sort will do.
TRACED = (
    "billion laughs",
    "deep json mix",
    "long text, then a syntax error",
    "many json objects",
    "many small mappings",
    "deep block mix",
)


@pytest.mark.parametrize("name", TRACED)
def test_refused_in_little_memory(name):
    text = CORPUS[name]
    tracemalloc.start()
    try:
        refusal(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < max(len(text), SMALL) * MOST_MEMORY_RATIO


@pytest.mark.parametrize(
    "text", [b"[" + b"{a: b}, " * 8_000 + b"]", b"- {}\n" * 20_000, b'{"a":[' + b"[]," * 20_000 + b"1]}"]
)
def test_a_dense_text_is_held_in_little_memory(text):
    tracemalloc.start()
    try:
        parse_documents(text, source="dense.yaml")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(text) * MOST_MEMORY_RATIO
