"""What a registry wants, learned from its refusal: nothing, a password, or a token of a real token service."""

import json

import pytest

from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.registry_auth import RegistryAuth
from modelplane.hydrate.transport import StatusError

LOGIN = ("me", "pass:word")
BASIC = "Basic bWU6cGFzczp3b3Jk"
PULL = "scope=repository%3Aacme%2Fmodel%3Apull"


def auth(client, login=None):
    return RegistryAuth(client, "acme/model", login)


def refusal(challenge):
    return StatusError(401, "no", challenge)


@pytest.mark.parametrize(
    ("login", "challenge", "expected"),
    [
        (LOGIN, 'Basic realm="r"', (True, {"Authorization": BASIC})),
        (LOGIN, 'BASIC realm="r"', (True, {"Authorization": BASIC})),
        (None, 'Basic realm="r"', (False, {})),
        (LOGIN, None, (False, {})),
        (LOGIN, "Negotiate", (False, {})),
    ],
)
def test_a_password_is_sent_where_it_is_wanted(client, login, challenge, expected):
    found = auth(client, login)
    assert found.headers() == {}
    assert (found.renew(refusal(challenge)), found.headers()) == expected


def test_a_password_that_was_refused_is_not_sent_again(client):
    found = auth(client, LOGIN)
    assert [found.renew(refusal("Basic")) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("login", "challenge", "answer", "path", "sent"),
    [
        (None, 'realm="{url}/token",service="r"', {"token": "t"}, f"/token?{PULL}&service=r", None),
        (LOGIN, 'realm="{url}/token"', {"access_token": "t"}, f"/token?{PULL}", BASIC),
        (None, 'realm="{url}/token?a=b",scope="x y"', {"token": "t"}, "/token?a=b&scope=x+y", None),
    ],
)
def test_a_token_comes_from_the_service_that_the_registry_names(client, server, login, challenge, answer, path, sent):
    server.add("/token", json.dumps(answer).encode())
    found = auth(client, login)
    assert found.renew(refusal("Bearer " + challenge.format(url=server.url)))
    assert found.headers() == {"Authorization": "Bearer t"}
    assert [(asked, headers.get("Authorization")) for _, asked, headers in server.requests] == [(path, sent)]


def test_tokens_expire_and_are_fetched_again(client, server):
    server.add("/token", b'{"token": "t"}')
    found = auth(client)
    assert [found.renew(refusal(f'Bearer realm="{server.url}/token"')) for _ in range(2)] == [True, True]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"{}", "the token service gave no token"),
        (b'{"token": "a\\nb"}', "the token service gave no token"),
        (b"<html>", "the token service's answer cannot be read"),
    ],
)
def test_an_answer_without_a_token_is_a_refusal(client, server, answer, message):
    server.add("/token", answer)
    found = auth(client)
    with pytest.raises(HydrateError, match=message):
        found.renew(refusal(f'Bearer realm="{server.url}/token"'))
    assert found.headers() == {}
