import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.admission.decode import MAX_BYTES, TextError, decode_text, escape, refuse, shorten


def test_utf8_with_and_without_mark():
    assert decode_text("a: é\n".encode(), source="f") == "a: é\n"
    assert decode_text(b"\xef\xbb\xbfa: 1\n", source="f") == "a: 1\n"
    assert decode_text(b"", source="f") == ""
    assert decode_text(b"x" * MAX_BYTES, source="f") == "x" * MAX_BYTES


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"x" * (MAX_BYTES + 1), "f:1:1: the text has 3145729 bytes; the limit is 3145728 (3 MiB)"),
        (b"\xff\xfea\x00", "f:1:1: the text is UTF-16; save it as UTF-8"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "f:1:1: the text is UTF-32; save it as UTF-8"),
        (b"a: 1\nb: \xff\n", "f:2:4: byte 0xff is not UTF-8 text; is this a binary file?"),
        ("é: 1\né: ".encode() + b"\xc3", "f:2:4: byte 0xc3 is not UTF-8 text; is this a binary file?"),
        (b"a: 1\nb: \0\n", "f:2:4: control character U+0000 is not allowed; is this a binary file?"),
        ("é: \u009b".encode(), "f:1:4: control character U+009B is not allowed; is this a binary file?"),
        ("a: \ufeff".encode(), "f:1:4: control character U+FEFF is not allowed; is this a binary file?"),
    ],
)
def test_refusals(data, line):
    with pytest.raises(TextError) as caught:
        decode_text(data, source="f")
    assert str(caught.value) == line


def test_an_error_knows_its_place():
    with pytest.raises(TextError) as caught:
        refuse("is\nwrong", source="a\x1b.yaml", text="one\ntwo", index=5)
    error = caught.value
    assert (error.sentence, error.line, error.column) == ("is\\nwrong", 2, 2)
    assert str(error) == "a\\x1b.yaml:2:2: is\\nwrong"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é", "plain é"),
        ("a\nb\x1b[2J", "a\\nb\\x1b[2J"),
        ("right\u202eto left", "right\\u202eto left"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ud800", "\\ud800"),
    ],
)
def test_escape(text, shown):
    assert escape(text) == shown


@given(st.text())
def test_whatever_is_shown_is_short_and_prints(text):
    assert escape(text).isprintable()
    assert shorten(text).isprintable()
    assert len(shorten(text)) <= 10 * 81
