import pytest

from modelplane.k8s.cel.errors import SyntaxFault
from modelplane.k8s.cel.lexer import (
    BYTES,
    END,
    FLOAT,
    IDENT,
    INT,
    STRING,
    UINT,
    bytes_literal,
    float_literal,
    int_literal,
    string_literal,
    tokenize,
    uint_literal,
)
from modelplane.k8s.cel.values import Uint


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a.b", [IDENT, ".", IDENT, END]),
        ("1.5 .5 1e3 1.e", [FLOAT, FLOAT, FLOAT, INT, ".", IDENT, END]),
        ("7u 0x1Fu 0x1F 0xg", [UINT, UINT, INT, INT, IDENT, END]),
        ("b'x' r'y' br\"z\" rb", [BYTES, STRING, BYTES, IDENT, END]),
        ("in true false null into", ["in", "true", "false", "null", IDENT, END]),
        ("a&&b||c // rest\n<=", [IDENT, "&&", IDENT, "||", IDENT, "<=", END]),
        ('""""""', [STRING, END]),
        ("'''a'b'''", [STRING, END]),
        ("\t\f\r\n", [END]),
    ],
)
def test_kinds_of_tokens(text, kinds):
    assert [kind for kind, _, _ in tokenize(text)] == kinds


@pytest.mark.parametrize("text", ["a $ b", "`a`", '"open', '"\\q"', "'a\nb'", "a & b", "\\"])
def test_text_that_is_no_token_is_refused_where_it_is(text):
    with pytest.raises(SyntaxFault) as caught:
        tokenize(text)
    assert text[caught.value.offset :]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\n\t\\\"\'\?\`"', "a\n\t\\\"'?`"),
        (r'"\x41\u00e9\U0001F600\101"', "Aé😀A"),
        (r"r'\n'", r"\n"),
        ('"""a\r\nb\rc"""', "a\nb\nc"),
        ("''", ""),
    ],
)
def test_value_of_a_string(text, value):
    assert string_literal(text, 0) == value


@pytest.mark.parametrize("text", [r'"\ud800"', r'"\U00110000"'])
def test_code_points_that_do_not_exist_are_refused(text):
    with pytest.raises(SyntaxFault, match="code point"):
        string_literal(text, 0)


@pytest.mark.parametrize(
    ("text", "value"), [(r'b"\xff\101é"', b"\xffA\xc3\xa9"), (r"br'\x41'", rb"\x41"), ('b""', b""), (r'b"\n"', b"\n")]
)
def test_value_of_bytes(text, value):
    assert bytes_literal(text, 0) == value


def test_bytes_have_no_unicode_escapes():
    with pytest.raises(SyntaxFault, match="unicode"):
        bytes_literal(r'b"\u0041"', 0)


def test_numbers_at_the_edge_of_their_types():
    assert int_literal("9223372036854775807", 0) == 2**63 - 1
    assert int_literal("9223372036854775808", 0, negative=True) == -(2**63)
    assert uint_literal("18446744073709551615u", 0) == Uint(2**64 - 1)
    assert int_literal("000000000000000000000000000012", 0) == 12
    assert float_literal("1.5e3", 0, negative=True) == -1500.0


@pytest.mark.parametrize(
    "refused",
    [
        lambda: int_literal("9223372036854775808", 0),
        lambda: int_literal("9" * 9_000, 0),
        lambda: uint_literal("18446744073709551616u", 0),
        lambda: float_literal("1e400", 0),
    ],
)
def test_numbers_beyond_their_types_are_refused(refused):
    with pytest.raises(SyntaxFault, match="literal"):
        refused()
