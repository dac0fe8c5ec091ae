"""Header blocks: the tables of RFC 7541, its examples, every rule that a block can break, and another decoder."""

import hpack as other
import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.table import HeaderTable
from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.transport.h2 import hpack, huffman

LIMIT = 16_384
coder = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)

text = st.binary(max_size=60)
names = st.sampled_from([b"x-a", b"x-b", b":path", b"content-type", b"x-" + b"n" * 130])
headers = st.lists(st.tuples(names, text), max_size=12)


def _decoder(table=None):
    decoder = hpack.Decoder(LIMIT)
    if table is not None:
        decoder.limit(table)
    return decoder


def test_the_static_table_is_that_of_another_implementation():
    assert tuple(HeaderTable.STATIC_TABLE) == hpack.STATIC


def test_the_huffman_code_is_that_of_another_implementation():
    theirs = dict(enumerate(zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)))
    assert huffman.codes() == theirs


@given(st.binary(max_size=300))
def test_coded_strings_come_back(data):
    assert huffman.decode(coder.encode(data)) == data


@given(st.binary(max_size=40))
def test_any_bytes_are_a_string_or_an_error(data):
    try:
        decoded = huffman.decode(data)
    except huffman.HuffmanError:
        return
    assert coder.encode(decoded) == data


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff\xff\xff\xff", "end-of-string"),
        (b"\x1f\xff", "middle of a symbol"),
        (b"\x00", "middle of a symbol"),
    ],
    ids=["coded end of string", "padding longer than seven bits", "padding that is not ones"],
)
def test_wrong_huffman_strings(data, sentence):
    with pytest.raises(huffman.HuffmanError, match=sentence):
        huffman.decode(data)


# RFC 7541 appendix C: the same decoder reads the three requests of a column after each other.
C3 = [
    ("828684410f7777772e6578616d706c652e636f6d", [b"GET", b"http", b"/", b"www.example.com"]),
    ("828684be58086e6f2d6361636865", [b"GET", b"http", b"/", b"www.example.com", b"no-cache"]),
    (
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        [b"GET", b"https", b"/index.html", b"www.example.com", b"custom-value"],
    ),
]
C4 = [
    ("828684418cf1e3c2e5f23a6ba0ab90f4ff", C3[0][1]),
    ("828684be5886a8eb10649cbf", C3[1][1]),
    ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", C3[2][1]),
]


@pytest.mark.parametrize("column", [C3, C4], ids=["plain", "Huffman"])
def test_examples_of_the_rfc(column):
    decoder = _decoder()
    for block, values in column:
        assert [value for _, value in decoder.read(bytes.fromhex(block))] == values


def test_entries_are_evicted_by_the_rfc():
    """RFC 7541 C.5: a table of 256 bytes that has to drop its oldest."""
    decoder = hpack.Decoder(LIMIT)
    decoder.limit(256)
    first = bytes.fromhex(
        "3fe101"
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54"
        "6e1768747470733a2f2f7777772e6578616d706c652e636f6d"
    )
    assert decoder.read(first)[0] == (b":status", b"302")
    assert decoder.read(bytes.fromhex("4803333037c1c0bf"))[0] == (b":status", b"307")
    assert decoder.read(bytes.fromhex("88c1c0bf"))[1][0] == b"cache-control"
    assert len(decoder._table) == 4


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ("80", "index 0 is in neither"),
        ("be", "index 62 is in neither"),
        ("ff8080808080", "too large"),
        ("ff", "ends inside a number"),
        ("00", "string was due"),
        ("0003", "longer than the block"),
        ("0001610561", "longer than the block"),
        ("8220", "middle of a block"),
        ("3fe21f", "4096 are allowed"),
        ("0081ff81ff", "middle of a symbol"),
    ],
)
def test_blocks_that_cannot_be_read(block, sentence):
    with pytest.raises(hpack.HpackError, match=sentence):
        _decoder().read(bytes.fromhex(block))


def test_a_peer_must_signal_a_table_size_update():
    decoder = _decoder(0)
    with pytest.raises(hpack.HpackError, match="kept its dynamic table"):
        decoder.read(b"\x82")
    decoder = _decoder(0)
    assert decoder.read(b"\x20\x82") == ((b":method", b"GET"),)
    assert decoder.read(b"\x82") == ((b":method", b"GET"),)


def test_an_entry_larger_than_the_table_empties_it():
    decoder = _decoder()
    decoder.read(b"\x40\x01a\x01b")
    assert len(decoder._table) == 1
    decoder.read(b"\x40\x01a" + hpack._length(5000) + b"v" * 5000)
    assert len(decoder._table) == 0


def test_a_list_that_is_too_long_is_read_to_its_end():
    decoder = hpack.Decoder(100)
    block = b"\x40\x01a\x01b" * 4
    with pytest.raises(hpack.TooLongError, match="136 bytes; 100 are accepted"):
        decoder.read(block)
    assert decoder.read(b"\xbe") == ((b"a", b"b"),)


def test_blocks_are_remembered_only_while_the_table_is_empty_for_good():
    decoder = _decoder()
    decoder.read(b"\x40\x01a\x01b")
    decoder.read(b"\xbe")
    assert decoder._remembered == {}
    decoder.limit(0)
    decoder.read(b"\x20\x82")
    assert decoder.read(b"\x82") is decoder.read(b"\x82")
    for number in range(2000):
        decoder.read(hpack.literal(b"x", str(number).encode()))
    assert len(decoder._remembered) <= 512


@given(st.lists(headers, max_size=6), st.sampled_from([None, 0, 64]))
def test_reads_what_another_coder_writes(blocks, size):
    encoder = other.Encoder()
    decoder = _decoder(size)
    if size is not None:
        encoder.header_table_size = size
    for block in blocks:
        if block:
            assert list(decoder.read(encoder.encode(block))) == block


@given(headers)
def test_another_decoder_reads_what_is_written_here(block):
    written = b"".join(hpack.literal(name, value) for name, value in block)
    read = other.Decoder(max_header_list_size=1_000_000).decode(written, raw=True)
    assert [tuple(header) for header in read] == block
    assert list(_decoder().read(written)) == block


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_headers_or_an_error(blocks):
    decoder = _decoder()
    for block in blocks:
        try:
            decoder.read(block)
        except (hpack.HpackError, hpack.TooLongError):
            return
