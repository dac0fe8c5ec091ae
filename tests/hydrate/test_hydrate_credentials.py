import base64
import json

import pytest

from modelplane.api.reasons import Reason
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError

AUTH = base64.b64encode(b"user:pass:word").decode()


@pytest.mark.parametrize("indent", [None, "\t", 4])
def test_a_pull_secret_may_have_lines(tmp_path, indent):
    config = json.dumps({"auths": {"https://registry.example/v1/": {"auth": AUTH}}}, indent=indent)
    (tmp_path / ".dockerconfigjson").write_text(config)
    assert MountedSecret(tmp_path).registry_login("registry.example") == ("user", "pass:word")
    assert MountedSecret(tmp_path).registry_login("other.example") is None


@pytest.mark.parametrize("content", ["", "[]", '{"auths": 7}', '{"auths": {"r": {"auth": "%"}}}', "[" * 100_000])
def test_a_pull_secret_that_is_none(tmp_path, content):
    (tmp_path / ".dockerconfigjson").write_text(content)
    with pytest.raises(HydrateError, match="the pull secret is not a Docker configuration") as raised:
        MountedSecret(tmp_path).registry_login("r")
    assert raised.value.reason is Reason.SECRET_INVALID


@pytest.mark.parametrize("name", [".dockerconfigjson", "username"])
def test_a_secret_that_is_no_text_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff")
    with pytest.raises(HydrateError) as raised:
        MountedSecret(tmp_path).registry_login("r")
    assert (str(raised.value), raised.value.reason) == (f"{tmp_path}/{name} is not text", Reason.SECRET_INVALID)


def test_a_login_is_of_both_keys_or_of_a_pull_secret_without_auth(tmp_path):
    (tmp_path / "username").write_text("me\n")
    assert MountedSecret(tmp_path).registry_login("r") is None
    (tmp_path / "password").write_text("word")
    assert MountedSecret(tmp_path).registry_login("r") == ("me", "word")
    (tmp_path / ".dockerconfigjson").write_text('{"auths": {"r": {"username": "u", "password": "p"}}}')
    assert MountedSecret(tmp_path).registry_login("r") == ("u", "p")


def test_a_token_goes_into_a_header_and_has_one_line(tmp_path):
    (tmp_path / "token").write_text("a\nb")
    with pytest.raises(HydrateError, match="has line breaks or control characters"):
        MountedSecret(tmp_path).token("token")
    with pytest.raises(HydrateError, match="the Secret has no key other"):
        MountedSecret(tmp_path).token("other")
