"""A base URL means what every client means by it, and the earlier forms mean what they meant."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ModelEndpoint
from modelplane.compose.endpoint_target import CredentialRef, credential_of, endpoint_target, field_of_address


def endpoint(**spec):
    return decode(ModelEndpoint, {"metadata": {"name": "a", "namespace": "team"}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "origin", "prefix"),
    [
        ({"url": "https://api.example"}, "https://api.example", "/v1"),
        ({"url": "https://api.example/"}, "https://api.example", "/v1"),
        ({"url": "https://api.example/v1"}, "https://api.example", "/v1"),
        ({"url": "https://api.example/v1/"}, "https://api.example", "/v1"),
        ({"url": "https://api.example/openai"}, "https://api.example", "/openai/v1"),
        ({"url": "https://api.example/openai/v1"}, "https://api.example", "/openai/v1"),
        ({"url": "https://api.example/v1beta/openai/"}, "https://api.example", "/v1beta/openai"),
        ({"url": "https://api.example/api/paas/v4"}, "https://api.example", "/api/paas/v4"),
        ({"url": "https://api.example:8443/x"}, "https://api.example:8443", "/x/v1"),
        ({"url": "http://192.0.2.1:80"}, "http://192.0.2.1", "/v1"),
        ({"url": "http://[2001:db8::1]:8080"}, "http://[2001:db8::1]:8080", "/v1"),
        ({"url": "https://api.example/ignored", "rewritePath": "/openai"}, "https://api.example", "/openai/v1"),
        ({"url": "https://api.example", "rewritePath": "/v2/"}, "https://api.example", "/v2/v1"),
        ({"url": "https://api.example", "rewritePath": "/x/v1"}, "https://api.example", "/x/v1"),
        ({"url": "https://api.example", "rewritePath": "/"}, "https://api.example", "/v1"),
        ({"origin": "https://api.example"}, "https://api.example", "/v1"),
        ({"origin": "https://api.example", "api": {"prefix": "/openai/v1"}}, "https://api.example", "/openai/v1"),
        ({"origin": "https://api.example", "api": {"prefix": "/"}}, "https://api.example", ""),
        ({"origin": "https://API.Example:443"}, "https://api.example", "/v1"),
    ],
)
def test_where_requests_go(spec, origin, prefix):
    found = endpoint_target(endpoint(**spec))
    assert (found.origin, found.prefix, found.models_url) == (origin, prefix, f"{origin}{prefix}/models")


@pytest.mark.parametrize("url", ["ftp://api.example", "http://a..b", "http://api.example:0"])
def test_what_is_no_address(url):
    assert endpoint_target(endpoint(url=url)) is None


@pytest.mark.parametrize(
    ("spec", "credential"),
    [
        ({}, None),
        ({"auth": {"secretRef": {"name": "s", "key": "k"}}}, CredentialRef("s", "k")),
        (
            {"auth": {"header": "x-key", "scheme": "Raw", "secretRef": {"name": "s", "key": "k"}}},
            CredentialRef("s", "k", "x-key", "Raw"),
        ),
        ({"credential": {"method": "APIKey", "apiKey": {"secretRef": {"name": "s"}}}}, CredentialRef("s", "apiKey")),
        (
            {
                "credential": {"method": "APIKey", "apiKey": {"secretRef": {"name": "s"}}},
                "api": {"schema": "Anthropic"},
            },
            CredentialRef("s", "apiKey", "x-api-key", "Raw"),
        ),
    ],
)
def test_what_the_gateway_adds(spec, credential):
    assert credential_of(endpoint(url="https://api.example", **spec)) == credential


def test_messages_name_the_field_that_was_written():
    assert field_of_address(endpoint(url="https://a.example")) == "spec.url"
    assert field_of_address(endpoint(origin="https://a.example")) == "spec.origin"
