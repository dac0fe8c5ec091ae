"""A relay between two clusters: the second takes everything from the first, and nothing from the source."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError, TryAgainError
from modelplane.hydrate.settings import Stop
from tests.hydrate.conftest import Staging
from tests.support.file_server import file_server
from tests.support.hub_server import HubServer

FILES = {"config.json": b"{}", "model.safetensors": b"w" * 3_000_000, "a/ü b.txt": b"x"}


class Peer:
    """`modelplane hydrate serve`, as a process."""

    def __init__(self, volume, *more):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = ["-m", "modelplane", "hydrate", "serve", "--volume", str(volume), "--listen", f"127.0.0.1:{port}"]
        self.process = subprocess.Popen([sys.executable, *command, *more], stdout=subprocess.PIPE, env=os.environ)
        assert self.process.stdout.readline().startswith(b"serving on")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        self.process.stdout.close()


@pytest.fixture
def peer(stage, tmp_path):
    (tmp_path / "token").write_text("shared\n")
    running = Peer(stage.root, "--token-file", str(tmp_path / "token"))
    yield running
    running.stop()


@pytest.fixture
def secret(tmp_path):
    return MountedSecret(token_file=tmp_path / "token")


def test_a_relay_moves_a_file_once(stage, server, peer, secret, tmp_path):
    with file_server() as storage:
        hub = HubServer(server, storage, "acme/tiny")
        hub.commit(FILES)
        first = stage({"huggingFace": {"repo": "acme/tiny", "endpoint": hub.url}})
        sent = server.sent + storage.sent
        second = Staging(tmp_path / "second")
        copy = second({"peer": {"url": peer.url, "key": first.key}}, secret=secret)
        assert server.sent + storage.sent == sent == sum(map(len, FILES.values()))
    assert (second.files(), second.fetched) == (FILES, sent)
    assert (copy.key, copy.revision, copy.root, copy.files) == (first.key, first.revision, first.root, first.files)
    assert (second.root / "hub/models--acme--tiny/refs/main").read_text() == first.revision


def test_only_what_the_marker_lists_is_served(stage, peer, secret, tmp_path):
    with pytest.raises(TryAgainError, match="answered 503"):
        Staging(tmp_path / "second")({"peer": {"url": peer.url}}, secret=secret, stop=Stop(2))
    marker = stage({"inline": {"files": {"a": "1"}}})
    (stage.root / marker.root / "unlisted").write_text("secret")

    def status(path, token):
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{peer.url}{path}", headers=headers)  # noqa: S310  our own server
        try:
            return urllib.request.urlopen(request).status  # noqa: S310  as above
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    files = f"/v1/files/{marker.key}"
    assert {path: status(path, "shared") for path in ("/v1/complete", f"{files}/a", "/healthz")} == {
        "/v1/complete": 200,
        f"{files}/a": 200,
        "/healthz": 200,
    }
    refused = [f"{files}/unlisted", f"{files}/../../../etc/passwd", f"{files}/%2e%2e/x", "/v1/files/..%2f/a", "/"]
    assert {status(path, "shared") for path in refused} == {404}
    assert status("/v1/complete", "other") == 401
    with pytest.raises(HydrateError, match=r"holds the content key .*, and other was asked for"):
        Staging(tmp_path / "second")({"peer": {"url": peer.url, "key": "other"}}, secret=secret)
