import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.k8s.cel.escaping import RESERVED, escape, unescape


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("plain", "plain"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("if", "__if__"),
        ("0a", None),
        ("", None),
        ("a b", None),
        ("é", None),
    ],
)
def test_escape(name, identifier):
    assert escape(name) == identifier


@pytest.mark.parametrize(
    ("identifier", "name"),
    [("a__dash__b", "a-b"), ("__if__", "if"), ("a__if__", None), ("a__foo__b", None), ("plain", "plain")],
)
def test_unescape(identifier, name):
    assert unescape(identifier) == name


@given(st.from_regex(r"[A-Za-z_./-][A-Za-z0-9_./-]{0,12}", fullmatch=True) | st.sampled_from(sorted(RESERVED)))
def test_what_can_be_escaped_comes_back(name):
    identifier = escape(name)
    assert identifier is not None
    assert unescape(identifier) == name
