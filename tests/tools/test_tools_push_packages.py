"""Pushing to a registry that is not ours, and reading back what it keeps."""

import base64
import hashlib
import json
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from modelplane import __version__
from tests.support.oci_registry import LOGIN, PASSWORD_LINE, helm, registry

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "push_packages.py"
ACCEPT = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Packages as the build leaves them: a function for two architectures, a configuration for none, a chart."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import build_chart
    from oci import Image, layer_of, package_image, write_archive

    folder = tmp_path / "packages"
    for architecture, suffix in (("amd64", ""), ("arm64", "-arm64")):
        runtime = Image((layer_of({"bin/x": architecture.encode()}),), ("/bin/x",), architecture=architecture)
        image = package_image(b"kind: Function\n", runtime)
        write_archive(image, folder / f"function-modelplane-v{__version__}{suffix}.xpkg", "f")
        write_archive(runtime, folder / f"modelplane-loader-v{__version__}{suffix}.tar", "l")
    write_archive(package_image(b"kind: Configuration\n"), folder / f"modelplane-v{__version__}.xpkg", "c")
    (folder / "modelplane-v0.0.1.xpkg").write_bytes(b"of another version")
    build_chart.write(tmp_path / "chart")
    return tmp_path


def push(built, host, *words, **environment):
    chart = built / "chart" / f"modelplane-{__version__}.tgz"
    command = [sys.executable, TOOL, f"{host}/team", "--packages", built / "packages", "--chart", chart]
    command += ["--output", built / "release", "--plain-http", *words]
    known = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(built), "PATH": "/usr/bin", **environment}
    return subprocess.run([*map(str, command)], env=known, capture_output=True, text=True, check=False)


def read(host, path):
    request = urllib.request.Request(f"http://{host}/v2/team/{path}", headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request) as answer:  # noqa: S310  loopback
        return answer.read()


def test_images_of_two_architectures_are_one_index(built, tmp_path):
    with registry(tmp_path) as host:
        done = push(built, host)
        assert done.returncode == 0, done.stderr
        index = read(host, f"function-modelplane/manifests/v{__version__}")
        manifests = json.loads(index)["manifests"]
        assert [each["platform"]["architecture"] for each in manifests] == ["amd64", "arm64"]
        for each in manifests:
            manifest = json.loads(read(host, f"function-modelplane/manifests/{each['digest']}"))
            config = json.loads(read(host, f"function-modelplane/blobs/{manifest['config']['digest']}"))
            assert config["architecture"] == each["platform"]["architecture"]
            marks = [layer.get("annotations") for layer in manifest["layers"]]
            assert marks == [{"io.crossplane.xpkg": "base"}, None]
        single = json.loads(read(host, f"modelplane/manifests/v{__version__}"))
        assert "manifests" not in single
    listed = (built / "release" / "images.txt").read_text().splitlines()
    digest = hashlib.sha256(index).hexdigest()
    assert listed[0] == f"{host}/team/function-modelplane:v{__version__}@sha256:{digest}"
    names = [line.partition("/team/")[2].partition("@")[0] for line in listed]
    own = [f"{name}:v{__version__}" for name in ("function-modelplane", "modelplane-loader", "modelplane")]
    assert sorted(names) == sorted([*own, f"charts/modelplane:{__version__}", "provider-kubernetes:v1.2.1"])


def test_pushing_again_sends_no_blob(built, tmp_path):
    with registry(tmp_path) as host:
        first = push(built, host)
        sent = (tmp_path / "log").read_text().count('"POST /v2/')
        second = push(built, host)
    assert (first.returncode, second.stdout) == (0, first.stdout)
    assert (sent, (tmp_path / "log").read_text().count('"POST /v2/')) == (13, 13)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (dict(zip(("REGISTRY_USERNAME", "REGISTRY_PASSWORD"), LOGIN, strict=True)), ""),
        ({"REGISTRY_USERNAME": "pusher", "REGISTRY_PASSWORD": "wrong"}, "401"),
        ({}, "wants a login: REGISTRY_USERNAME and REGISTRY_PASSWORD"),
    ],
)
def test_a_registry_with_passwords(built, tmp_path, environment, words):
    (tmp_path / "passwords").write_text(PASSWORD_LINE)
    auth = {"htpasswd": {"realm": "here", "path": str(tmp_path / "passwords")}}
    with registry(tmp_path, auth) as host:
        done = push(built, host, **environment)
    assert (done.returncode == 0) == (not words)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_login_of_other_programs_is_used(built, tmp_path):
    (tmp_path / "passwords").write_text(PASSWORD_LINE)
    auth = {"htpasswd": {"realm": "here", "path": str(tmp_path / "passwords")}}
    with registry(tmp_path, auth) as host:
        (built / ".docker").mkdir()
        packed = base64.b64encode(":".join(LOGIN).encode()).decode()
        (built / ".docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": packed}}}))
        assert push(built, host).returncode == 0
        (built / ".docker" / "config.json").write_text(json.dumps({"credsStore": "desktop"}))
        assert "keeps the password in another program" in push(built, host).stderr


def test_a_registry_with_a_token_service(built, tmp_path):
    seen = []

    class Tokens(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers["Authorization"]))
            body = b'{"token": "one"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Tokens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    auth = {"silly": {"realm": f"http://127.0.0.1:{server.server_port}/token", "service": "registry"}}
    try:
        with registry(tmp_path, auth) as host:
            done = push(built, host, REGISTRY_USERNAME="a", REGISTRY_PASSWORD="b")
            assert done.returncode == 0, done.stderr
    finally:
        server.shutdown()
        server.server_close()
    assert seen[0][0].startswith("/token?service=registry&scope=repository%3Ateam%2Ffunction-modelplane%3A")
    assert {basic for _, basic in seen} == {f"Basic {base64.b64encode(b'a:b').decode()}"}


@pytest.mark.parametrize(
    ("host", "words"),
    [("team", "the registry's host comes first"), ("127.0.0.1:1", "127.0.0.1:1 does not answer")],
)
def test_what_cannot_be_pushed_to(built, host, words):
    done = push(built, host)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_helm_pulls_the_chart_that_was_pushed(built, tmp_path):
    program = helm()
    with registry(tmp_path) as host:
        assert push(built, host).returncode == 0
        chart = f"oci://{host}/team/charts/modelplane"
        command = [program, "pull", chart, "--version", __version__, "--plain-http", "-d", str(tmp_path / "pulled")]
        (tmp_path / "pulled").mkdir()
        subprocess.run(command, check=True, capture_output=True, env={"HOME": str(tmp_path)})
    name = f"modelplane-{__version__}.tgz"
    assert (tmp_path / "pulled" / name).read_bytes() == (built / "chart" / name).read_bytes()
