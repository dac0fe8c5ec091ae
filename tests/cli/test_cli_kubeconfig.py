import base64

import pytest
import yaml

from modelplane.api.errors import InputError
from modelplane.cli.kubeconfig import read_kubeconfig


def config(*, cluster=None, user=None, **more):
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "secret", **(user or {})}}],
        **more,
    }


@pytest.fixture
def write(tmp_path):
    def to_file(document):
        path = tmp_path / "config"
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return path

    return to_file


def test_server_and_token_of_the_current_context(write):
    plane = read_kubeconfig(write(config()))
    assert (plane.server, plane.token) == ("https://192.0.2.1:6443", "secret")
    assert "secret" not in repr(plane)


def test_a_token_may_lie_in_a_file_beside_it(write, tmp_path):
    (tmp_path / "token").write_text("other\n")
    assert read_kubeconfig(write(config(user={"tokenFile": "token"}))).token == "other"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (config(user={"exec": {"command": "aws"}}), "credentials from exec are not supported"),
        (config(user={"auth-provider": {"name": "gcp"}}), "credentials from auth-provider are not supported"),
        (config(cluster={"server": "http://192.0.2.1"}), "http://192.0.2.1 is not an https address"),
        (config(cluster={"server": 7}), "the server is missing is not an https address"),
        (config(cluster={"insecure-skip-tls-verify": True}), "insecure-skip-tls-verify is not supported"),
        (config(cluster={"certificate-authority-data": "%"}), "certificate-authority-data is not base64"),
        (
            config(cluster={"certificate-authority-data": base64.b64encode(b"none").decode()}),
            "a certificate cannot be read",
        ),
        (config(**{"current-context": "there"}), "no entry named 'there' in contexts"),
        (config(clusters=[7]), "no entry named 'c' in clusters"),
        ("a: [", "not a kubeconfig"),
        ("7", "no entry named '' in contexts"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(write, document, says):
    with pytest.raises(InputError, match=says):
        read_kubeconfig(write(document))
