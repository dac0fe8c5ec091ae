import pytest

from modelplane.k8s.cel.errors import EvaluationError
from modelplane.k8s.cel.library.urls import is_url, to_url


@pytest.mark.parametrize(
    ("text", "scheme", "host", "path", "query"),
    [
        ("https://example.com:80/a%20b?q=1#f", "https", "example.com:80", "/a%20b", "q=1"),
        ("HTTP://u:p@[::1]:8080/", "http", "[::1]:8080", "/", ""),
        ("/only/path?x", "", "", "/only/path", "x"),
        ("mailto:someone", "mailto", "", "", ""),
    ],
)
def test_the_parts_of_a_url(text, scheme, host, path, query):
    found = to_url(text)
    assert (found.scheme, found.host, found.path, found.raw_query) == (scheme, host, path, query)


def test_urls_are_equal_by_their_normal_form():
    assert to_url("HTTP://a/b") == to_url("http://a/b")
    assert hash(to_url("HTTP://a/b")) == hash(to_url("http://a/b"))
    assert to_url("http://a/b") != to_url("http://a/c")


@pytest.mark.parametrize(
    "text", ["", "relative/path", "http://[::1", "http://a:port/", "http://a/%zz", "1http://a/", "http://a b/", "\x7f"]
)
def test_texts_that_are_no_url(text):
    assert not is_url(text)
    with pytest.raises(EvaluationError, match="is not a URL"):
        to_url(text)
