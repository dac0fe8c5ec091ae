"""Label and field selectors."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.failures import ApiError
from modelplane.apiserver.resources import resources
from modelplane.apiserver.selectors import EVERYTHING, read_selector

SERVICES = resources()["modelplane.ai", "v1alpha1", "modelservices"]
EVENTS = resources()["", "v1", "events"]
SECRETS = resources()["", "v1", "secrets"]


def labelled(**labels):
    return {"metadata": {"name": "n", "namespace": "default", "labels": labels}}


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("! a", {}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b,c)", {}, False),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a in (,b)", {"a": ""}, True),
        ("a=", {"a": ""}, True),
        ("a=b,c=d", {"a": "b", "c": "d"}, True),
        ("a=b,c=d", {"a": "b"}, False),
        ("n>3", {"n": "5"}, True),
        ("n<3", {"n": "5"}, False),
        ("n<3", {"n": "x"}, False),
        ("example.com/a in (b)", {"example.com/a": "b"}, True),
    ],
)
def test_label_selectors(text, labels, matches):
    manifest = {"metadata": {"labels": labels}}
    assert read_selector(SERVICES, text, "").matches(manifest) is matches


@pytest.mark.parametrize(
    "text",
    ["=", "a===b", "a in b", "a in (b", "a b", "-a=b", "a=b b", "a=-b", "a>b", "a in (b))", "a,,b", "(", "a=b!c"],
)
def test_label_selectors_that_cannot_be_read(text):
    with pytest.raises(ApiError) as caught:
        read_selector(SERVICES, text, "")
    assert (caught.value.code, str(caught.value)[:28]) == (400, "unable to parse requirement:")


@given(st.text(alphabet="ab=!,()<> in\u00e4", max_size=20))
def test_any_text_is_read_or_refused(text):
    with suppress(ApiError):
        assert read_selector(SERVICES, text, text).matches(labelled()) in {True, False}


EVENT = {
    "metadata": {"name": "e", "namespace": "default"},
    "involvedObject": {"kind": "ModelService", "name": "chat", "uid": "u"},
    "reason": "Placed",
    "source": {"component": "modelplane"},
}


@pytest.mark.parametrize(
    ("resource", "text", "matches"),
    [
        (EVENTS, "involvedObject.name=chat,involvedObject.kind=ModelService", True),
        (EVENTS, "involvedObject.name=other", False),
        (EVENTS, "involvedObject.namespace=", True),
        (EVENTS, "reason!=Placed", False),
        (EVENTS, "source=modelplane", True),
        (SERVICES, "metadata.name=e", True),
        (SERVICES, "metadata.name!=e", False),
        (SERVICES, "metadata.namespace==default", True),
        (SERVICES, "metadata.name=a\\,b", False),
        (SECRETS, "type=Opaque", False),
    ],
)
def test_field_selectors(resource, text, matches):
    assert read_selector(resource, "", text).matches(EVENT) is matches


@pytest.mark.parametrize(
    ("resource", "text"),
    [(SERVICES, "spec.x=1"), (EVENTS, "message=x"), (SERVICES, "metadata.name"), (SECRETS, "data=x"), (SERVICES, "=a")],
)
def test_field_selectors_that_are_not_served(resource, text):
    with pytest.raises(ApiError):
        read_selector(resource, "", text)


def test_labels_that_a_store_indexes():
    selector = read_selector(SERVICES, "a=b,c in (d),e in (f,g),h!=i,j", "metadata.name=n")
    assert (selector.equal_labels(), selector.name()) == ({"a": "b", "c": "d"}, "n")
    assert read_selector(SERVICES, "", "") is EVERYTHING
    assert EVERYTHING.name() is None
