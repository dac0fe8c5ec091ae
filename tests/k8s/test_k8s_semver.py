"""Parity with upstream is in the vectors; here are the rules by name, the order's laws, and hostile texts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.errors import InputError
from modelplane.k8s.semver import (
    VersionError,
    as_int64,
    compare_versions,
    is_valid_attribute,
    is_version,
    parse_version,
)

_numbers = st.one_of(st.integers(0, 12), st.sampled_from([2**63, 2**64 - 1]))
_identifiers = st.one_of(_numbers.map(str), st.sampled_from(["a", "A", "Z", "rc", "alpha", "-", "a-b", "0a", "x9"]))


@st.composite
def texts(draw):
    text = ".".join(str(draw(_numbers)) for _ in range(3))
    if prerelease := draw(st.lists(_identifiers, max_size=3)):
        text += "-" + ".".join(prerelease)
    if build := draw(st.lists(st.sampled_from(["b", "01", "-", "5"]), max_size=2)):
        text += "+" + ".".join(build)
    return text


versions = texts().map(parse_version)


@given(texts())
def test_parse_and_print_are_inverse(text):
    assert str(parse_version(text)) == text


@given(versions, versions, versions)
def test_order_is_total(a, b, c):
    assert compare_versions(a, b) == -compare_versions(b, a)
    assert (compare_versions(a, b) == 0) == (a == b)
    assert a != b or hash(a) == hash(b)
    assert (a < b) + (b < a) + (a == b) == 1
    if a <= b <= c:
        assert a <= c


@given(versions)
def test_build_metadata_takes_no_part(version):
    bare = parse_version(str(version).partition("+")[0])
    assert bare == version
    assert hash(bare) == hash(version)


@given(versions)
def test_a_release_is_above_its_prereleases(version):
    release = parse_version(f"{version.major}.{version.minor}.{version.patch}")
    assert compare_versions(release, version) == (1 if version.prerelease else 0)


@given(texts())
def test_normalising_leaves_a_strict_version_as_it_is(text):
    assert str(parse_version(text, normalize=True)) == text
    assert str(parse_version("v" + text, normalize=True)) == text


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("580.65.06", "580.65.6"),
        ("v1", "1.0.0"),
        ("1.2.-3", "1.2.0-3"),
        ("001.002.003-rc", "1.2.3-rc"),
        ("0", "0.0.0"),
        ("00", "0.0.0"),
        ("1.0.0003+b.01", "1.0.3+b.01"),
    ],
)
def test_normalising(text, normalized):
    assert str(parse_version(text, normalize=True)) == normalized


@pytest.mark.parametrize("text", ["vv1.2.3", "V1.2.3", "1.2-rc", "1+b", " 1.2.3", "1.2.3 ", "", "v", "1..2", ".1.2"])
def test_normalising_forgives_nothing_else(text):
    assert not is_version(text, normalize=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1.2", '"1.2" is not a version: expected major.minor.patch'),
        ("01.2.3", '"01.2.3" is not a version: "01" is not a number without leading zeros'),
        ("1.2.3-", '"1.2.3-" is not a version: bad prerelease identifier ""'),
        ("1.2.3-01", '"1.2.3-01" is not a version: "01" is not a number without leading zeros'),
        ("1.2.3+a..b", '"1.2.3+a..b" is not a version: bad build metadata ""'),
        ("1.2.3-18446744073709551616", "does not fit in 64 bits"),
    ],
)
def test_rejections_have_a_reason(text, reason):
    with pytest.raises(VersionError, match=re.escape(reason) + "$"):
        parse_version(text)


def test_a_refusal_is_an_input_error():
    assert issubclass(VersionError, InputError)


def test_a_short_version_with_a_tail_is_rejected():
    with pytest.raises(VersionError, match="a short version cannot carry"):
        parse_version("1.2-rc", normalize=True)


@pytest.mark.parametrize(("number", "signed"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)])
def test_numbers_read_as_signed(number, signed):
    assert as_int64(number) == signed


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("1.0.0", True),
        ("99999999999999999999.0.0", True),
        ("1.0.0-" + "a" * 58, True),
        ("1.0.0-" + "a" * 59, False),
        ("1.0.0-é", False),
        ("1.0.0-01", False),
        ("1.0.0-0a", True),
        ("1.0.0+01", True),
        ("1.0.0\n", False),
        ("\ud800.0.0", False),
    ],
)
def test_the_api_rule_for_attributes(text, accepted):
    assert is_valid_attribute(text) is accepted


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text):
    assert is_version(text) in {True, False}
    assert is_version(text, normalize=True) in {True, False}
    assert is_valid_attribute(text) in {True, False}


@given(st.text("0123456789.-+aZv", max_size=24))
def test_what_the_evaluator_reads_the_api_accepts_too_unless_it_is_long(text):
    if is_version(text):
        assert is_valid_attribute(text)


HOSTILE = {
    "long number": "9" * 10_240 + ".0.0",
    "many dots": "1" + "." * 10_000,
    "many identifiers": "1.0.0-" + ".".join(["1"] * 5_000),
    "many builds": "1.0.0+" + ".".join(["a"] * 5_000),
    "long identifier": "1.0.0-" + "a" * 10_000,
    "zeros": "0" * 10_000,
    "nonsense": "é" * 10_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_end_in_an_answer(text):
    answers = {is_version(text), is_version(text, normalize=True), is_valid_attribute(text)}
    assert answers <= {True, False}


def test_not_equal_to_a_text():
    assert parse_version("1.2.3") != "1.2.3"
